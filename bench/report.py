"""The table: as text for a terminal, as JSON for comparing runs."""

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from bench.measure import Figure, Row, RowResult

_PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"))
_UNITS: Final = {"rate": "/s", "bytes": "B"}
_TITLES: Final = ("row", "median", "spread", "limit", "wanted", "verdict", "ours", "peer")
_LIBRARIES: Final = ("pyarrow", "numpy", "rocksdict")


def machine() -> dict[str, object]:
    """Return what a figure's reader must know of where it was taken."""
    return {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        **{name: version(name) for name in _LIBRARIES},
    }


def text_table(results: Sequence[RowResult]) -> str:
    """Return the results as aligned columns."""
    return aligned([_TITLES, *map(_cells, results)])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as text in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def json_text(results: Sequence[RowResult], places: Sequence[dict[str, object]]) -> str:
    """Return everything that was measured; `places` is the machine at the start and the end."""
    rows = [
        {
            "row": result.row.name,
            "text": result.row.text,
            "sense": result.row.sense,
            "limit": result.row.limit,
            "wanted": result.row.wanted,
            "verdict": result.verdict,
            "median": result.median,
            "rounds": result.figures,
            "ours": result.top,
            "peer": result.bottom,
        }
        for result in results
    ]
    return json.dumps({"machine": places, "rows": rows}, indent=2) + "\n"


def _cells(result: RowResult) -> tuple[str, ...]:
    row = result.row
    least, most = min(result.figures), max(result.figures)
    sign = "≥" if row.sense == "at least" else "≤"
    peer = (
        "" if result.bottom is None or row.bottom is None else absolute(result.bottom, row.bottom)
    )
    return (
        row.name,
        with_unit(row, result.median),
        f"{with_unit(row, least)} - {with_unit(row, most)} ({len(result.figures)})",
        "" if row.limit is None else f"{sign} {with_unit(row, row.limit)}",
        "" if row.wanted is None else f"{sign} {with_unit(row, row.wanted)}",
        result.verdict,
        absolute(result.top, row.top),
        peer,
    )


def with_unit(row: Row, value: float) -> str:
    """Return a row's figure as text."""
    is_ratio = row.bottom is not None and row.compared == "ratio"
    return f"{value:.2f} x" if is_ratio else absolute(value, row.top)


def absolute(value: float, figure: Figure) -> str:
    """Return what was measured in three digits, with its unit and a prefix to it."""
    unit = _UNITS.get(figure[1].rsplit("_", 1)[-1], "s")
    size, prefix = next((p for p in _PREFIXES if abs(value) >= p[0]), _PREFIXES[-1])
    return f"{value / size:.3g} {prefix}{unit}"
