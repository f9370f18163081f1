from editjudge_services.features.vision_service import ClipVitB32
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(ClipVitB32)
