"""The process that publishes for a writer, where the library of tables is not installed."""

import pytest

from storage_core import InvalidRequestError
from storage_core.lake import LakePublisher, PublishOrder, lake_target

MISSING = 'raise ModuleNotFoundError("not here", name="deltalake")'


def test_library_that_is_missing_is_told_by_one_line(tmp_path, monkeypatch):
    (tmp_path / "deltalake.py").write_text(MISSING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    order = PublishOrder(tmp_path, "orders", (0,), lake_target(str(tmp_path / "lake")))
    with LakePublisher() as publisher:
        with pytest.raises(InvalidRequestError, match=r"pip install 'shardlog\[lake\]'"):
            publisher.publish(order)
        assert publisher.deaths == 0
