"""Fixtures of logs that begin from the table of their stream."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lake.beginning.beginning_lab import BeginningLab
from tests.log.fixtures import root

__all__ = ["root"]


@pytest.fixture
def make_lab(root: Path) -> Iterator[Callable[..., BeginningLab]]:
    """Make labs, each with options of its stream."""
    labs: list[BeginningLab] = []

    def make(**options: Any) -> BeginningLab:
        labs.append(BeginningLab(root, **options))
        return labs[-1]

    yield make
    for lab in labs:
        lab.close()


@pytest.fixture
def lab(make_lab: Callable[..., BeginningLab]) -> BeginningLab:
    """A lab whose rows belong to integer ids."""
    return make_lab()
