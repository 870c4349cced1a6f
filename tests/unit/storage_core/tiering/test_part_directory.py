"""What was made for nothing goes, but no file of whoever writes the shard by then."""

import numpy as np
import pytest

from storage_core import UnavailableError
from storage_core.tiering.seal import seal_shard
from tests.log.parts.parts_lab import PartsLab


def test_failure_behind_a_close_removes_no_file_of_the_next_writer(root):
    lab = PartsLab(root)
    lab.append(np.random.default_rng(51), 60)
    shard = lab.stream._shards[0]

    def failing_once_another_has_sealed(_context, _view, _work):
        lab.reopen()
        lab.stream.seal()
        message = "it died"
        raise UnavailableError(message)

    with pytest.raises(UnavailableError, match="it died"):
        seal_shard(shard, failing_once_another_has_sealed)
    parts = [part for part in lab.stream.parts() if part.shard == 0]
    assert parts
    assert all(part.path.exists() for part in parts)
    lab.stream.close()
