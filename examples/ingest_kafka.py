"""Store a Kafka topic with a worker, exactly once, and read it by id.

Run it: eval "$(shardlog dev up)" && python examples/ingest_kafka.py
"""

import json
import subprocess
from tempfile import TemporaryDirectory
from uuid import uuid4

from storage_core import StreamReader

RECORDS = 1000
# A topic of this run's own. The broker is the one that KAFKA_BOOTSTRAP names.
topic = f"readings-{uuid4().hex[:8]}"
plan = [f"--records={RECORDS}", "--devices=10", "--late-share=0.02"]
subprocess.run(["shardlog", "produce", topic, "--partitions=2", *plan], check=True)

with TemporaryDirectory() as root:
    settings = [f"root={root}", f"topics={topic}", f"kafka.group.id={topic}"]
    command = ["shardlog", "worker", *(f"--set={setting}" for setting in settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        # A worker runs until it is told to stop. What it says is a JSON object a line.
        for line in worker.stdout or ():
            event = json.loads(line)
            if event["event"] == "progress" and event["appended"] == RECORDS:
                worker.terminate()
            elif event["event"] == "stopped":
                print(f"stored {event['appended']} records, {event['late']} of them late")

    with StreamReader.open(root, topic) as reader:
        print(f"committed by shard: {reader.committed()}")
        for row in reader.read(7, limit=2).to_pylist():
            reading = json.loads(row["payload"])
            print(f"device 7, record {reading['seq']}: {reading['temperature']} degrees")
