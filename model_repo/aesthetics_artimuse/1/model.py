from editjudge_services.aesthetics.artimuse_service import ArtiMuse
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(ArtiMuse)
