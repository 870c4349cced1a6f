"""Fixtures of the scenarios."""

from tests.log.fixtures import (
    bench,
    copy,
    disk,
    filled,
    hooked,
    lasting_bench,
    make_bench,
    nothing_gathered,
    root,
)

__all__ = [
    "bench",
    "copy",
    "disk",
    "filled",
    "hooked",
    "lasting_bench",
    "make_bench",
    "nothing_gathered",
    "root",
]
