from editjudge_services.features.vision_service import DinoV2
from editjudge_services.runtime.triton import serve

TritonPythonModel = serve(DinoV2)
