"""Building parts in this thread: errors have the kinds that a builder process answers with."""

import numpy as np
import pyarrow as pa
import pytest

from storage_core import CorruptionError, UnavailableError
from storage_core.tiering import build
from tests.log.parts.parts_lab import PartsLab

REFUSALS = (
    pa.ArrowInvalid("offset overflow"),
    pa.ArrowMemoryError("malloc of size 64 failed"),
    MemoryError(),
    OSError(28, "No space left on device"),
)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    lab = PartsLab(tmp_path_factory.mktemp("sealed"))
    for seed in range(6):
        lab.append(np.random.default_rng(seed), 20)
        if seed < 5:
            lab.stream.seal()
    lab.stream.close()
    return lab


@pytest.fixture
def lab(sealed, root):
    lab = sealed.copied_to(root)
    yield lab
    lab.stream.close()


def refused_by(monkeypatch, name, error):
    def refuse(*_args, **_named):
        raise error

    monkeypatch.setattr(build, name, refuse)


@pytest.mark.parametrize("error", REFUSALS, ids=lambda one: type(one).__name__)
def test_what_refuses_to_build_parts_is_told_as_unavailable(lab, monkeypatch, error):
    with monkeypatch.context() as patch:
        refused_by(patch, "_write_part", error)
        refused_by(patch, "prove_blocks", error)
        lab.stream.parts()[0].path.write_bytes(b"nothing")
        for call in (
            lab.stream.seal,
            lab.stream.trim,
            lambda: lab.stream.seal(rebuild=True),
        ):
            with pytest.raises(UnavailableError, match=r"parts cannot be built: .+"):
                call()
    lab.stream.seal(rebuild=True)
    with monkeypatch.context() as patch:
        refused_by(patch, "_write_part", error)
        with pytest.raises(UnavailableError, match=r"parts cannot be built: .+"):
            lab.stream.compact()
    lab.stream.compact()
    assert lab.rows_of_parts() == lab.rows()
    assert lab.stream.verify().problems == ()


def test_damage_stays_damage(lab, monkeypatch):
    refused_by(monkeypatch, "_write_part", CorruptionError("damaged"))
    with pytest.raises(CorruptionError, match="damaged"):
        lab.stream.seal()
