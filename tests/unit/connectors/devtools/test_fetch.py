"""Jars are fetched once, checked on each use and fetched again when damaged.

What fetches is a function that writes small files and counts its calls.
"""

import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from connectors.devtools.fetch import (
    Bundle,
    fetched,
    ivy_jar,
    locked,
)
from connectors.devtools.places import dev_directory, jars_directory
from storage_core import CorruptionError, InvalidRequestError, UnavailableError

# What `sha256sum a.jar inner/b.jar | sha256sum` prints of the jars below.
SMALL_SHA256 = "0d3e8e7a18829d60777e51cb78989520a5426d6d8d03329adcadf8fedd119543"
SMALL = Bundle("small-1", "", files=2, megabytes=1, sha256=SMALL_SHA256)


@dataclass
class Store:
    """Where jars come from."""

    calls: int = 0
    does_fail: bool = False

    def retrieve(self, bundle: Bundle, directory: Path, on_tick: Callable[[], None]) -> Path:
        assert bundle.name == "small-1"
        self.calls += 1
        jars = directory / "found"
        jars.mkdir()
        (jars / "a.jar").write_bytes(b"a" * 100)
        on_tick()
        if self.does_fail:
            message = "no network"
            raise UnavailableError(message)
        with zipfile.ZipFile(jars / "b.zip", "w") as archive:
            archive.writestr("inner/b.jar", b"b" * 100)
        return jars


@pytest.fixture
def store():
    return Store()


def test_bundle_is_fetched_once_and_archives_are_unpacked(tmp_path, store):
    for _ in range(3):
        assert fetched(SMALL, tmp_path, store.retrieve) == tmp_path / "small-1"
    assert store.calls == 1
    assert (tmp_path / "small-1/inner/b.jar").read_bytes() == b"b" * 100
    assert not (tmp_path / "small-1/b.zip").exists()
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    "harm",
    [
        lambda place: (place / "a.jar").write_bytes(b"a" * 99),
        lambda place: (place / "a.jar").write_bytes(b"x" * 100),
        lambda place: (place / "inner/b.jar").unlink(),
        lambda place: (place / "a.jar").rename(place / "c.jar"),
        lambda place: (place / "other.jar").touch(),
    ],
)
def test_damaged_bundle_is_fetched_again(tmp_path, store, harm):
    harm(fetched(SMALL, tmp_path, store.retrieve))
    fetched(SMALL, tmp_path, store.retrieve)
    fetched(SMALL, tmp_path, store.retrieve)
    assert store.calls == 2
    assert (tmp_path / "small-1/a.jar").read_bytes() == b"a" * 100


def test_failed_fetch_leaves_nothing_and_is_repeated(tmp_path, store):
    store.does_fail = True
    with pytest.raises(UnavailableError, match="no network"):
        fetched(SMALL, tmp_path, store.retrieve)
    store.does_fail = False
    assert list(tmp_path.iterdir()) == []
    fetched(SMALL, tmp_path, store.retrieve)
    assert store.calls == 2


def test_bundle_that_is_not_the_one_named_is_refused(tmp_path, store):
    other = replace(SMALL, sha256="0" * 64)
    with pytest.raises(CorruptionError, match=r"small-1 has SHA-256 .* do not run it"):
        fetched(other, tmp_path, store.retrieve)
    assert not (tmp_path / "small-1").exists()


def test_lock_is_waited_for_only_so_long(tmp_path):
    place = tmp_path / "made"
    with (
        locked(place, "fetching"),
        pytest.raises(
            UnavailableError, match="fetching: another process has held the lock for 0 s"
        ),
    ):
        locked(place, "fetching", 0.1)


def test_missing_pyspark_is_one_line_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(InvalidRequestError, match=r"is missing: pip install 'shardlog\[spark\]'"):
        ivy_jar()


def test_places_follow_the_environment(monkeypatch):
    for name in ("SHARDLOG_CACHE", "SHARDLOG_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert jars_directory() == Path.home() / ".cache/shardlog/jars"
    assert dev_directory() == Path.home() / ".local/state/shardlog/dev"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert jars_directory() == Path("/x/shardlog/jars")
    monkeypatch.setenv("SHARDLOG_CACHE", "/c")
    monkeypatch.setenv("SHARDLOG_STATE", "/s")
    assert jars_directory() == Path("/c/jars")
    assert dev_directory() == Path("/s/dev")
