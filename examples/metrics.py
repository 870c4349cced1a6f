"""Ask a worker for its metrics and its health over HTTP, as Prometheus does.

Run it: eval "$(shardlog dev up)" && python examples/metrics.py
"""

import json
import subprocess
from http.client import HTTPConnection
from tempfile import TemporaryDirectory
from uuid import uuid4

RECORDS = 1000
METRICS = ("shardlog_worker_appended_total ", "shardlog_open_partitions ", "shardlog_broker_away ")
# A topic of this run's own. The broker is the one that KAFKA_BOOTSTRAP names.
topic = f"readings-{uuid4().hex[:8]}"
produce = ["shardlog", "produce", topic, f"--records={RECORDS}", "--partitions=2"]
subprocess.run(produce, check=True)


def ask(address: str, path: str) -> str:
    """Return what a worker answers."""
    connection = HTTPConnection(address, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


with TemporaryDirectory() as root:
    # Port 0 takes a free one; in production each worker has a port of its own.
    settings = [f"root={root}", f"topics={topic}", f"kafka.group.id={topic}"]
    settings.append("metrics.listen=127.0.0.1:0")
    command = ["shardlog", "worker", *(f"--set={setting}" for setting in settings)]
    address = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        for line in worker.stdout or ():
            event = json.loads(line)
            if event["event"] == "listening":
                address = event["address"]
            elif event["event"] == "progress" and event["appended"] == RECORDS:
                print(f"ready: {json.loads(ask(address, '/health/ready'))}")
                for metric in ask(address, "/metrics").splitlines():
                    if metric.startswith(METRICS):
                        print(metric)
                worker.terminate()
