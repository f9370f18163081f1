from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(Piqe)
