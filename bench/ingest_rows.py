"""Ingest from a real broker: durable against a bare consumer loop, and the worker's memory.

Both sides use the same consumer settings, on the same topic, one process each, in turn; the
broker runs on the same processors. A round in which the bare loop itself is slow is void.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import PARTITIONS
from bench.void import fast_enough
from bench.workspace import KAFKA_TASKS, child_process, empty_directory
from connectors.dev_stack.broker import BROKER
from connectors.dev_stack.server import Server
from connectors.kafka_client import create_topic

SMALL_RECORDS: Final = 2_000_000
LARGE_RECORDS: Final = 400_000
BARE_RATE_MIN: Final = 1_200_000


@contextmanager
def filled_topic(workspace: Path, records: int, value_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield a broker's address and a topic of so many records."""
    with Server(BROKER, workspace / "broker") as broker:
        yield broker.address, fill(broker, records, value_bytes)


def fill(broker: Server, records: int, value_bytes: int) -> str:
    """Make a topic of so many records and return its name."""
    create_topic(broker.address, "filled", PARTITIONS)
    arguments = ("produce", broker.address, "filled", records, value_bytes)
    with child_process(*arguments, module=KAFKA_TASKS) as child:
        child.answer()
    return "filled"


def _against_the_loop(
    records: int, value_bytes: int, rate_min: float
) -> Callable[[Path], AbstractContextManager[Mapping[str, Contestant]]]:
    @contextmanager
    def contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
        with filled_topic(workspace, records, value_bytes) as (bootstrap, topic):

            def bare() -> Measured:
                arguments = ("bare", bootstrap, topic, records)
                with child_process(*arguments, module=KAFKA_TASKS) as child:
                    return child.answer()

            def ours() -> Measured:
                with empty_directory(workspace) as root:
                    arguments = ("ingest", bootstrap, topic, root, records)
                    with child_process(*arguments, module=KAFKA_TASKS) as child:
                        return child.answer()

            yield {"ours": ours, "bare loop": lambda: fast_enough(bare, rate_min, "the bare loop")}

    return contestants


def _rows(name: str, what: str) -> tuple[Row, ...]:
    return (
        Row(
            f"{name}/rate",
            f"durable ingest of {what} against the bare loop, one process each",
            ("ours", "rate"),
            ("bare loop", "rate"),
            limit=0.38,
            wanted=0.6,
        ),
        Row(
            f"{name}/cpu",
            f"processor time a record of {what} against the bare loop",
            ("ours", "cpu"),
            ("bare loop", "cpu"),
            "at most",
            limit=2.2,
            wanted=1.5,
        ),
        Row(
            f"{name}/memory",
            f"peak memory of a worker that ingests {what}",
            ("ours", "memory_bytes"),
            None,
            "at most",
            limit=400 * 10**6,
            wanted=250 * 10**6,
        ),
    )


INGEST: Final = Experiment(
    "ingest",
    _rows("ingest", "100-byte values"),
    _against_the_loop(SMALL_RECORDS, 100, BARE_RATE_MIN),
)
INGEST_LARGE: Final = Experiment(
    "ingest1k",
    _rows("ingest1k", "1 kB values"),
    _against_the_loop(LARGE_RECORDS, 1000, 0),
)
