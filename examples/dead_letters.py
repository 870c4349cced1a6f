"""Look at dead letters: records of a topic that could not be stored as rows, and why.

Run it: eval "$(shardlog dev up)" && python examples/dead_letters.py
"""

import json
import subprocess
from tempfile import TemporaryDirectory
from uuid import uuid4

# Keys are device ids of 4 bytes, unless the worker is told otherwise; "seven" is none.
RECORDS = [
    {"key": 7, "value": "20.5"},
    {"key": "seven", "value": "21.0"},
    {"key": 8, "value": "18.0"},
]


def is_done(event: dict[str, int]) -> bool:
    """Tell whether the worker has handled all records."""
    return event["appended"] + event["dead_letters"] == len(RECORDS)


# A topic of this run's own. The broker is the one that KAFKA_BOOTSTRAP names.
topic = f"readings-{uuid4().hex[:8]}"
lines = "\n".join(json.dumps(record) for record in RECORDS)
produce = ["shardlog", "produce", topic, "--partitions=1", "--lines=-"]
subprocess.run(produce, input=lines, text=True, check=True)

with TemporaryDirectory() as root:
    settings = [f"root={root}", f"topics={topic}", f"kafka.group.id={topic}"]
    command = ["shardlog", "worker", *(f"--set={setting}" for setting in settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        for line in worker.stdout or ():
            event = json.loads(line)
            if event["event"] == "progress" and is_done(event):
                worker.terminate()
            elif event["event"] == "stopped":
                print(f"stored {event['appended']}, dead letters {event['dead_letters']}")

    show = ["shardlog", "dlq", "show", root, topic, "--format=json"]
    listing = subprocess.run(show, capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        dead_letter = json.loads(line)
        print(f"offset {dead_letter['offset']}, {dead_letter['word']}: {dead_letter['reason']}")
        print(f"its key is {dead_letter['key']}, its value {dead_letter['value']}")
