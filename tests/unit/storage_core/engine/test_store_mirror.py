"""A store that is read through links: what a writer does meanwhile is seen as by any reader."""

from typing import Any

import pytest

from storage_core import Stream, StreamOptions, StreamReader


@pytest.fixture
def mirrored(monkeypatch):
    """Readers that may not write beside a store."""
    monkeypatch.setattr("storage_core.engine.rocksdb.may_write_config", lambda _: False)


def rows_of(reader):
    return [row for batch in reader.scan() for row in batch.column("primary").to_pylist()]


@pytest.mark.usefixtures("mirrored")
def test_reader_through_links_follows_a_writer_through_new_files(tmp_path):
    options = StreamOptions(shards=1, unit="s", block_records=4)
    with Stream.create(tmp_path, "s", options) as stream:
        stream.append(0, 1, b"x")
        stream.commit()
        with StreamReader.open(tmp_path, "s") as reader:
            for primary in range(1, 60):
                stream.append(primary, 1, bytes(1000))
                stream.commit()
                if primary % 7 == 0:
                    # What was in memory becomes files; what they replace goes.
                    store: Any = stream._shards[0]._store
                    store._database.flush()
                if primary % 20 == 0:
                    stream.seal()
                reader.refresh()
                assert rows_of(reader) == list(range(primary + 1))


@pytest.mark.usefixtures("mirrored")
def test_reader_through_links_survives_the_writer_and_leaves_nothing(tmp_path, monkeypatch):
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(private))
    root = tmp_path / "root"
    Stream.create(root, "s", StreamOptions(shards=1)).close()
    for first in (0, 3):
        with Stream.open(root, "s") as stream:
            for primary in range(first, first + 3):
                stream.append(primary, 1, b"x")
        with StreamReader.open(root, "s") as reader:
            assert rows_of(reader) == list(range(first + 3))
            assert list(private.iterdir())
    assert not list(private.iterdir())
