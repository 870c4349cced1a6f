"""quix-streams with keyed state in RocksDB over a topic, with its defaults.

    python quix.py BOOTSTRAP TOPIC RECORDS STATE

Answers with a line of JSON. Run by `bench/ingest/peers.py` where quix-streams is installed; it
imports nothing of ours.
"""

import json
import sys
import time

from quixstreams import Application, State


def main(bootstrap: str, topic: str, records: str, state: str) -> None:
    """Keep the length of each key's last value; answer with the rate."""
    count = int(records)
    started: list[float] = []

    def keep(value: bytes, store: State) -> bytes:
        if not started:
            started.append(time.perf_counter())
        store.set("last", len(value))
        return value

    application = Application(
        broker_address=bootstrap,
        # A group for each run, which begins anew.
        consumer_group=state.rpartition("/")[2],
        auto_offset_reset="earliest",
        state_dir=state,
        loglevel="ERROR",
    )
    source = application.topic(topic, key_deserializer="bytes", value_deserializer="bytes")
    application.dataframe(source).apply(keep, stateful=True)
    application.run(count=count, collect=False)
    # The state of the last records is stored by then.
    print(json.dumps({"rate": count / (time.perf_counter() - started[0])}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
