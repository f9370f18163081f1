from editjudge_services.runtime.triton import serve
from editjudge_services.segmentation.sa2va_service import Sa2VaSegmenter

TritonPythonModel = serve(Sa2VaSegmenter)
