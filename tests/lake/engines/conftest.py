"""Fixtures of all engines: a log and its table, and DuckDB with its extension for Delta tables."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lake.engines.duckdb_delta import DuckDelta
from tests.lake.engines.engines_lab import EnginesLab
from tests.versions.pysparks import FetchError


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[EnginesLab]:
    """A log and its table, empty at first."""
    lab = EnginesLab(tmp_path)
    yield lab
    lab.close()


@pytest.fixture
def duck_delta(tmp_path: Path, tell: Callable[[str], None]) -> Iterator[DuckDelta]:
    """DuckDB with its extension."""
    try:
        program = DuckDelta(tmp_path, tell)
    except FetchError as error:
        pytest.skip(str(error))
    with program:
        yield program
