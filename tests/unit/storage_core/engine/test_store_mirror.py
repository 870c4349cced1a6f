"""A store that is read through links: what a writer does meanwhile is seen as by any reader."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from storage_core import Stream, StreamOptions, StreamReader
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import open_secondary, open_store
from storage_core.engine.store_mirror import StoreMirror
from storage_core.format.keys import FAMILY_DEFAULT

READER = """
import json, sys
from storage_core import StreamReader

with StreamReader.open(sys.argv[1], "s") as reader:
    for line in sys.stdin:
        committed = reader.committed() if line == "committed\\n" else reader.refresh()
        rows = [at for batch in reader.scan() for at in batch.column("primary").to_pylist()]
        print(json.dumps([committed[0], rows]), flush=True)
"""


@pytest.fixture
def mirrored(monkeypatch):
    """Readers that may not write beside a store."""
    monkeypatch.setattr("storage_core.engine.rocksdb.may_write_config", lambda _: False)


@pytest.fixture
def beside_store(tmp_path):
    """A writer's store, and a reader of it through links."""
    with (
        closing(open_store(tmp_path / "db", "strict")) as writer,
        closing(open_secondary(tmp_path / "db", tmp_path)) as reader,
    ):
        yield writer, reader


@pytest.fixture
def once_linked(monkeypatch):
    """What is to happen once, behind the next look at the files and before they are opened."""
    steps: list[Callable[[], None]] = []

    def follow(mirror, original=StoreMirror.follow):
        original(mirror)
        if steps:
            steps.pop()()

    monkeypatch.setattr(StoreMirror, "follow", follow)
    return steps


def put(store, key):
    store.write(Batch(puts=[(FAMILY_DEFAULT, key, b"")]))
    store.sync()


def keys_of(store):
    with closing(store.snapshot()) as view:
        return [key for key, _ in view.items(FAMILY_DEFAULT, b"a", b"z")]


@pytest.mark.usefixtures("mirrored")
def test_log_that_is_purged_before_it_is_opened_does_not_hide_the_logs_behind_it(
    beside_store, once_linked
):
    writer, reader = beside_store
    put(writer, b"b")
    reader.catch_up()

    def purge():
        writer.flush()
        put(writer, b"d")

    writer.flush()
    put(writer, b"c")
    once_linked.append(purge)
    reader.catch_up()
    reader.catch_up()
    assert keys_of(reader) == [b"b", b"c", b"d"]


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


@pytest.fixture
def reader_on_mount(tmp_path):
    """Another process, which has the root on a read-only mount, and answers what it is asked."""
    (tmp_path / "mounted").mkdir()
    script = f'mount --bind -o ro "{tmp_path}/root" "{tmp_path}/mounted" && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", script, "sh")
    (tmp_path / "root").mkdir()
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    started: list[subprocess.Popen[str]] = []

    def ask(question):
        if not started:
            words = [*prefix, sys.executable, "-c", READER, str(tmp_path / "mounted")]
            pipe, place = subprocess.PIPE, Path(__file__).parents[4]
            started.append(subprocess.Popen(words, cwd=place, text=True, stdin=pipe, stdout=pipe))
        (process,) = started
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{question}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    for process in started:
        # Leaving closes its pipes, at which it ends, and waits for it.
        with process:
            pass


@pytest.mark.parametrize("question", ["committed", "refresh"])
def test_reader_on_a_read_only_mount_sees_the_newest_behind_purged_logs(
    tmp_path, reader_on_mount, question
):
    with Stream.create(tmp_path / "root", "s", StreamOptions(shards=1, unit="s")) as stream:
        for last in range(12):
            stream.append(last, 1, b"x")
            stream.commit()
            # In turn: the log of what is written now is the last one, or purged, or one of two.
            for _ in range(last % 3):
                stream._shards[0]._store.flush()
            assert reader_on_mount(question) == [last + 1, list(range(last + 1))]
