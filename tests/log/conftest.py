"""Fixtures of the scenarios."""

import pytest

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
from tests.thin import thinned_alike

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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let each scenario of parts be of rows of ids, or of keys."""
    thinned_alike(metafunc, "key_mode", ["none", "dictionary"], "SHARDLOG_FAULT_COLD")
