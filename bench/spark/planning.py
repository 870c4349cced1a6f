"""What planning a read costs Spark, of a large stream against one of a tenth of its rows.

Planned is a frame from earliest, and one from a time in the middle, which is looked for: by Spark,
from the options to the tasks; and by the source alone, since what Spark adds is the same for both
and would hide what grows. SHARDLOG_BENCH_ROWS says how many rows the large stream has.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.log.indexed import ROWS
from bench.measure import Contestant, Experiment, Measured, Row, percentile
from bench.records import FIRST_PRIMARY, record_batches
from bench.spark import queries
from bench.spark.rates import SHARDS, spark_process, warmed
from bench.workspace import await_compaction
from storage_core import Stream
from streaming_jobs.source.driver.ranges import RangeReader
from streaming_jobs.source.options import parse_source_options

_BATCH_ROWS: Final = 10_000
_PLANS: Final = 10
_SIZES: Final = (("large", ROWS), ("small", ROWS // 10))


@contextmanager
def _planning(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    contestants: dict[str, Contestant] = {}
    with spark_process(workspace) as spark:

        def by_spark(options: Mapping[str, str]) -> Contestant:
            return lambda: spark.run(
                queries.plan, workspace, source="shardlog", options=options, plans=_PLANS
            )

        for size, rows in _SIZES:
            with Stream.create(workspace, size, SHARDS) as stream:
                for batch in record_batches(rows // _BATCH_ROWS, _BATCH_ROWS, shuffled=False):
                    stream.append_batch(batch)
                    stream.commit()
            place = {"path": str(workspace), "stream": size}
            timed = {**place, "startingTimestamp": str(FIRST_PRIMARY + rows // 2)}
            for name, options in (("earliest", place), ("time", timed)):
                contestants[f"{size} {name}"] = by_spark(options)
                contestants[f"{size} {name}, alone"] = _alone(options)
        await_compaction(workspace)
        yield warmed(contestants)


def _alone(options: Mapping[str, str]) -> Contestant:
    lowered = {name.lower(): value for name, value in options.items()}
    return lambda: _median_of(RangeReader(parse_source_options(lowered, "batch")).partitions)


def _median_of(plan: Callable[[], object]) -> Measured:
    seconds = []
    for _ in range(_PLANS):
        start = time.perf_counter()
        assert plan(), "there are tasks"
        seconds.append(time.perf_counter() - start)
    return {"seconds": percentile(seconds, 0.5)}


SPARK_PLANNING: Final = Experiment(
    "spark-planning",
    tuple(
        Row(
            f"spark-planning/{name}{suffix}",
            f"{contestant} plans a frame from {begin}, against a tenth of the rows",
            (f"large {name}{of}", "seconds"),
            (f"small {name}{of}", "seconds"),
            sense="at most",
            limit=2,
            wanted=1.3,
        )
        for name, begin in (("earliest", "earliest"), ("time", "a time in the middle"))
        for contestant, suffix, of in (("Spark", "", ""), ("the source alone", "-alone", ", alone"))
    ),
    _planning,
    bytes_needed=6 * 2**30,
)
