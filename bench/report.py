"""The table: as text for a terminal, as Markdown for a document, as JSON for comparing runs."""

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
    lines = [_TITLES, *(_cells(result) for result in results)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown_table(results: Sequence[RowResult]) -> str:
    """Return the results as a table of Markdown, with the sentence of each row."""
    lines = [("what", *_TITLES), ("---",) * (len(_TITLES) + 1)]
    lines += [(result.row.text, *_cells(result)) for result in results]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


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


def figure_text(value: float, unit: str) -> str:
    """Return a figure in three digits with its unit's prefix."""
    size, prefix = next((p for p in _PREFIXES if abs(value) >= p[0]), _PREFIXES[-1])
    return f"{value / size:.3g} {prefix}{unit}"


def _cells(result: RowResult) -> tuple[str, ...]:
    row = result.row
    least, most = min(result.figures), max(result.figures)
    sign = "≥" if row.sense == "at least" else "≤"
    peer = (
        "" if result.bottom is None or row.bottom is None else _absolute(result.bottom, row.bottom)
    )
    return (
        row.name,
        _shown(row, result.median),
        f"{_shown(row, least)} - {_shown(row, most)} ({len(result.figures)})",
        "" if row.limit is None else f"{sign} {_shown(row, row.limit)}",
        "" if row.wanted is None else f"{sign} {_shown(row, row.wanted)}",
        result.verdict,
        _absolute(result.top, row.top),
        peer,
    )


def _shown(row: Row, value: float) -> str:
    is_ratio = row.bottom is not None and row.compared == "ratio"
    return f"{value:.2f} x" if is_ratio else _absolute(value, row.top)


def _absolute(value: float, figure: Figure) -> str:
    return figure_text(value, _UNITS.get(figure[1].rsplit("_", 1)[-1], "s"))
