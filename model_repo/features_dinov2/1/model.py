from editjudge_services.features.vision_service import DinoV2
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(DinoV2)
