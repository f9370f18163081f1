from editjudge_services.perceptual.lpips_service import LpipsVgg
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(LpipsVgg)
