from editjudge_services.features.vision_service import DinoV3
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(DinoV3)
