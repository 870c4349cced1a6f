"""Goal: an entry that the catalogue of parts lacks is told, and costs no row in silence."""

from typing import Any

import numpy as np
import pytest

from storage_core import CorruptionError
from tests.log.parts.parts_lab import PartsLab, take_entry_away


@pytest.fixture
def lab(key_mode, root):
    lab = PartsLab(root, key_mode=key_mode, block_records=64, retention=None)
    yield lab
    lab.stream.close()


@pytest.mark.parametrize("key_mode", ["none", "dictionary"])
def test_entry_that_is_missing_is_told_by_reads_of_few_ids(lab):
    lab.append(np.random.default_rng(18), 400)
    lab.stream.seal()
    lab.stream.trim()
    request: dict[str, Any] = {"keys": [b"device-1"]} if lab.has_keys else {"ids": [1]}
    rows = lab.stream.read(**request).num_rows
    take_entry_away(lab.stream)
    with pytest.raises(CorruptionError, match="the part list is not whole"):
        lab.stream.read(**request)
    assert rows
    assert "the part list is not whole" in str(lab.stream.verify().problems)
