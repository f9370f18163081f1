from editjudge_services.ocr.got_service import GotOcr
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(GotOcr)
