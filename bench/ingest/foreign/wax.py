"""bytewax over a topic into nothing, in batches of 1,000.

    python wax.py BOOTSTRAP TOPIC RECORDS

Answers with a line of JSON. Run by `bench/ingest/peers.py` where bytewax is installed; it imports
nothing of ours.
"""

import json
import os
import sys
import time
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main


class Counting(StatelessSinkPartition[Any]):
    """Counts what arrives, and ends the process when it is enough."""

    def __init__(self, enough: int) -> None:
        """Begin at nothing."""
        self._enough = enough
        self._count = 0
        self._start = 0.0

    def write_batch(self, items: list[Any]) -> None:
        """Count a batch."""
        if not self._count:
            self._start = time.perf_counter()
        self._count += len(items)
        if self._count >= self._enough:
            rate = self._count / (time.perf_counter() - self._start)
            print(json.dumps({"rate": rate}), flush=True)
            # A dataflow has no other end than that of its input.
            os._exit(0)


class CountingSink(DynamicSink[Any]):
    """Makes the one counter."""

    def __init__(self, enough: int) -> None:
        """Count so many."""
        self._enough = enough

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Counting:  # noqa: ARG002 - bytewax fixes the parameters
        """Return it."""
        return Counting(self._enough)


def main(bootstrap: str, topic: str, records: str) -> None:
    """Read so many records; answer with the rate."""
    flow = Dataflow("bench")
    source = KafkaSource([bootstrap], [topic], tail=False, batch_size=1000)
    op.output("out", op.input("in", flow, source), CountingSink(int(records)))
    run_main(flow)


if __name__ == "__main__":
    main(*sys.argv[1:])
