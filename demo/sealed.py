"""What is stored as files of Parquet, and a question in SQL over them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.job import TELEMETRY
from storage_core import Stream
from storage_core.sql import connect

_ALL: Final = "SELECT count(*) FROM telemetry"
_WARMEST: Final = (
    "SELECT device, count(*) AS readings, avg(temperature) AS mean\n"
    "      FROM telemetry GROUP BY device ORDER BY mean DESC LIMIT 3"
)


@dataclass(frozen=True, slots=True)
class Sealed:
    """What the files have, and what was answered from them.

    Attributes:
        rows: Rows in the files.
        files: How many files.
        bytes: What the files take.
        counted: How many rows SQL counts: those that are shown.
        warmest: Device, number of readings and their mean of those that are warmest.
    """

    rows: int
    files: int
    bytes: int
    counted: int
    warmest: list[tuple[int, int, float]]

    def lines(self) -> list[str]:
        """Return what was made, what was asked and what was answered."""
        row_bytes, hidden = self.bytes / max(1, self.rows), self.rows - self.counted
        expired = f", {hidden:,} of them expired," if hidden else ""
        return [
            f"    {self.rows:,} rows{expired} in {self.files} files, {row_bytes:.1f} bytes a row",
            f"    {_WARMEST}",
            *(
                f"      device {device}: {readings} readings, {mean:.2f} degrees"
                for device, readings, mean in self.warmest
            ),
        ]


def seal_and_ask(root: Path) -> Sealed:
    """Seal all that is stored, and ask for it in SQL."""
    with Stream.open(root, TELEMETRY) as stream:
        stream.seal()
        entries = [part.entry for part in stream.parts()]
    with connect(root, [TELEMETRY]) as streams:
        [(counted,)] = streams.sql(_ALL).fetchall()
        warmest = streams.sql(_WARMEST).fetchall()
    rows, size = sum(one.rows for one in entries), sum(one.size for one in entries)
    return Sealed(rows, len(entries), size, counted, warmest)
