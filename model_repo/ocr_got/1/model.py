from editjudge_services.ocr.got_service import GotOcr
from editjudge_services.runtime.triton import serve

TritonPythonModel = serve(GotOcr)
