from editjudge_services.ocr.ppocr_service import PpOcr
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(PpOcr)
