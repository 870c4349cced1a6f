"""Fixtures of the golden stores: each test module names its own in `STORE`, and gets a copy."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage_core import Stream
from tests.golden.write_v1 import open_later

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def expected(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the store told when it was written."""
    found: dict[str, Any] = json.loads((HERE / f"{request.module.STORE}.json").read_text())
    return found


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the golden store."""
    return shutil.copytree(HERE / request.module.STORE, tmp_path / "root")


@pytest.fixture
def stream(root: Path) -> Iterator[Stream]:
    """The golden store opened for writing."""
    with open_later(root) as stream:
        yield stream
