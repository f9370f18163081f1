from editjudge_services.runtime.adaptor import serve
from editjudge_services.segmentation.segmenter_service import Sa2VaSegmenter

TritonPythonModel = serve(Sa2VaSegmenter)
