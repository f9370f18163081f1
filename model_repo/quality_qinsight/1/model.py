from editjudge_services.quality.qinsight_service import QInsight
from editjudge_services.runtime.adaptor import serve

TritonPythonModel = serve(QInsight)
