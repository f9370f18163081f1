from editjudge_services.runtime.adaptor import serve
from editjudge_services.segmentation.segmenter_service import GroundedSamSegmenter

TritonPythonModel = serve(GroundedSamSegmenter)
