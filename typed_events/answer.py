"""What a command is answered: a status, one line of text, and rows as Arrow batches."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import pyarrow as pa


class Status(StrEnum):
    """How a command went."""

    OK = "OK"
    BAD_REQUEST = "BadRequest"
    NOT_FOUND = "NotFound"
    CONFLICT = "Conflict"
    BUSY = "Busy"
    INTERNAL_ERROR = "InternalError"


@dataclass(frozen=True, slots=True)
class PlotAxes:
    """How rows are drawn.

    Attributes:
        x: The column along which they are drawn; None where there is one row alone.
        y: The columns that are drawn.
        series: The column each of whose values is drawn by itself; None for none.
        kind: What is drawn.
    """

    x: str | None
    y: tuple[str, ...]
    series: str | None
    kind: Literal["line", "bar"]


@dataclass(slots=True)
class Answer:
    """What a command is answered.

    Attributes:
        status: How it went.
        message: One line for people; what is wrong, and what to do.
        schema: The columns of its rows; None where a command has no rows.
        batches: The rows, made while they are taken. Whoever does not take all of them closes it.
        plot: How they are drawn; None where nobody asked for that.
    """

    status: Status = Status.OK
    message: str = "OK"
    schema: pa.Schema | None = None
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    plot: PlotAxes | None = None


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 event`, `2,000 events`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
