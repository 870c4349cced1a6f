"""Goal: whatever rows a stream has, each form brings them back, also over a damaged file.

Method: streams of random rows, usual and strange, sealed or not, are exported in files of random
sizes; one file is damaged in a random way, and put back.
"""

import shutil
from contextlib import suppress

import numpy as np
import pytest

from storage_core import CorruptionError, ShardlogError, Stream
from storage_core.export import export_stream, import_stream
from tests.log.export.forging import forged
from tests.log.export.strange_rows import append_strange, damaged
from tests.log.parts.parts_lab import FORMS, NAME, PartsLab, facts_of, whole_rows
from tests.thin import rounds

ROUNDS = rounds("SHARDLOG_FAULT_EXPORT", few=1, many=2)
FORGERIES = 5
JITTERS = (0, 3_000, 60_000)


@pytest.fixture
def lab(key_mode, root, seed):
    """A stream of random rows."""
    rng = np.random.default_rng(seed)
    jitter = int(rng.choice(JITTERS))
    lab = PartsLab(root / "data", key_mode=key_mode, jitter=jitter)
    for _ in range(rng.integers(1, 4)):
        lab.append(rng, int(rng.integers(1, 80)))
        append_strange(lab, rng)
        if rng.random() < 0.3:
            lab.stream.seal()
    lab.append(rng, 5)
    lab.stream.close()
    return lab


def beginnings(rows, of):
    """Tell whether rows of each shard are the first of another's."""
    for shard in (0, 1):
        some = [row for row in rows if row["shard"] == shard]
        if some != [row for row in of if row["shard"] == shard][: len(some)]:
            return False
    return True


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("form", FORMS)
def test_rows_come_back_over_a_damaged_file(lab, root, seed, form):
    rng = np.random.default_rng(seed)
    rows = whole_rows(lab.root, lab.id_column)
    how = {"file_format": form, "codec": rng.choice(["deflate", "zstandard"]).item()}
    export_stream(lab.root, NAME, root / "x", file_rows=int(rng.choice([1, 10, 50, 10**6])), **how)
    with damaged(rng, root / "x") as file:
        with pytest.raises(CorruptionError) as raised:
            import_stream(root / "back", NAME, root / "x")
        assert raised.value.path == file
        assert beginnings(whole_rows(root / "back", lab.id_column), of=rows)
    import_stream(root / "back", NAME, root / "x")
    assert whole_rows(root / "back", lab.id_column) == rows
    assert facts_of(root / "back") == facts_of(lab.root)
    assert import_stream(root / "back", NAME, root / "x").rows_before == len(rows)
    with Stream.open(root / "back", NAME) as stream:
        assert stream.verify().problems == ()


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("form", FORMS)
def test_file_that_no_export_wrote_is_told_though_its_digest_holds(lab, root, seed, form):
    rng = np.random.default_rng(seed)
    export_stream(lab.root, NAME, root / "x", file_rows=50, file_format=form)
    for _ in range(FORGERIES):
        shutil.copytree(root / "x", root / "forged")
        forged(rng, root / "forged")
        # A change of a payload alone is nobody's to know; no other error gets through.
        with suppress(ShardlogError):
            import_stream(root / "back", NAME, root / "forged")
        shutil.rmtree(root / "forged")
        shutil.rmtree(root / "back", ignore_errors=True)
