"""A stream that keeps five hours, at a time that the test knows: words of the expiry scenarios.

shelf = Shelf(make_bench)
shelf.put(-7, 10)                 a block of ten rows, seven hours old
shelf.expire()                    now
shelf.expire(hours=3)             three hours later
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from storage_core import Environment, ExpiryReport, StreamReader
from storage_core.sql import connect
from storage_core.testing import ManualClock
from tests.log.hooked_disk import HookedDisk
from tests.log.workbench import Workbench, column_of

HOUR = 3600
# A full hour, so that windows begin where hours do.
NOW = 472_222 * HOUR
KEPT = 5


class SeekingDisk(HookedDisk):
    """A disk that also counts what is asked of views."""

    def passes(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:  # type: ignore[explicit-override]  # needs Python 3.12
        """Stand before each view that is opened."""
        answer = super().passes(name, call, *arguments)
        return self.before(answer) if name == "snapshot" else answer


class Shelf:
    """One shard whose rows are some hours old."""

    def __init__(
        self,
        make_bench: Callable[..., Workbench],
        environment: Environment | None = None,
        **options: Any,
    ) -> None:
        """Make the stream; its clock stands at NOW."""
        self.clock = ManualClock(wall_ns=NOW * 10**9)
        options.setdefault("retention", timedelta(hours=KEPT))
        options.setdefault("unit", "s")
        environment = environment or Environment(self.clock)
        self.bench = make_bench(environment=environment, **options)

    @property
    def stream(self) -> Any:
        """The stream."""
        return self.bench.stream

    def put(self, hours: float, count: int = 1, **columns: Any) -> list[int]:
        """Keep a block of rows from so many hours after NOW on; return their primaries."""
        begin = NOW + int(hours * HOUR)
        primaries = list(range(begin, begin + count))
        self.bench.keep(primaries, **columns)
        return primaries

    def expire(self, hours: float = 0, *, dry_run: bool = False) -> ExpiryReport:
        """Expire so many hours after NOW."""
        report: ExpiryReport = self.stream.expire(NOW + int(hours * HOUR), dry_run)
        return report

    def expect(self, primaries: list[int]) -> None:
        """Find exactly these rows by every read, here and in a reader, and all of it sound."""
        with self.bench.read_beside() as reader:
            for reads in (self.stream, reader):
                expect_rows(reads, primaries)
        with connect(self.bench.root, [self.bench.name]) as streams:
            rows = streams.sql(f'SELECT "primary" FROM "{self.bench.name}" ORDER BY ALL').fetchall()
        assert [primary for (primary,) in rows] == sorted(primaries)
        report = self.stream.verify()
        assert report.is_clean, report.problems


def expect_rows(reads: Any, primaries: list[int]) -> None:
    """Find exactly these rows by every read."""
    expected = sorted(primaries)
    assert sorted(column_of(reads.read(), "primary")) == expected
    assert sorted(column_of(reads.scan(), "primary")) == expected
    ids = set(column_of(reads.read(), "secondary"))
    assert set(reads.latest()) == ids
    assert reads.earliest(None, -(2**63)) == (expected[0] if expected else None)
    if expected:
        assert max(one.primary for one in reads.latest().values()) == expected[-1]


def tail_of(reads: Any, start: int) -> list[int]:
    """Return the primaries of a replay from an address on."""
    return column_of(reads.tail(0, start), "primary")


def start_of(bench: Workbench) -> int:
    """Return the first address that the log still has."""
    with StreamReader.open(bench.root, bench.name) as reader:
        return reader.start(0)
