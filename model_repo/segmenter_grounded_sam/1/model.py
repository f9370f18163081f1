from editjudge_services.runtime.triton import serve
from editjudge_services.segmentation.grounded_sam_service import GroundedSamSegmenter

TritonPythonModel = serve(GroundedSamSegmenter)
