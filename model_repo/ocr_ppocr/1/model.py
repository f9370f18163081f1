from editjudge_services.ocr.ppocr_service import PpOcr
from editjudge_services.runtime.triton import serve

TritonPythonModel = serve(PpOcr)
