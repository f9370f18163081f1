from editjudge_services.quality.qinsight_service import QInsight
from editjudge_services.runtime.triton import serve

TritonPythonModel = serve(QInsight)
