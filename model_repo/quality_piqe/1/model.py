from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.runtime.triton import serve

TritonPythonModel = serve(Piqe)
