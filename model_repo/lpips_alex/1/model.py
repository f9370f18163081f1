from editjudge_services.perceptual.lpips_service import LpipsAlex
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(LpipsAlex)
