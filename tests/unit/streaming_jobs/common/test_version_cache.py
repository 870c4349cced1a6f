"""Versions of subjects kept for an application: found again by all of what names them."""

from pathlib import Path

import pytest

from streaming_jobs.common.version_cache import CachedVersion, VersionCache

TOLD = CachedVersion('"long"', 7)
NAMED = (("http://a:1", "http://b:1"), "s", 3)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "blockmgr-1"
    place.mkdir()
    VersionCache(str(place)).keep(*NAMED, TOLD)
    return place


def test_version_is_found_by_its_registry_subject_and_number_only(directory: Path) -> None:
    cache = VersionCache(f"{directory},/elsewhere")
    assert cache.of(*NAMED) == TOLD
    others = [(("http://a:1",), "s", 3), (NAMED[0], "t", 3), (NAMED[0], "s", 2)]
    assert [cache.of(*other) for other in others] == [None] * 3


def test_file_that_cannot_be_read_is_as_if_it_was_not_kept(directory: Path) -> None:
    (file,) = directory.rglob("*.json")
    for text in ("", "{}", "[]", '{"id": "x", "schema": ""}'):
        file.write_text(text)
        assert VersionCache(str(directory)).of(*NAMED) is None


@pytest.mark.parametrize("place", ["", "{0}", "{0}/blockmgr-2"], ids=["none", "users", "gone"])
def test_nothing_is_kept_where_no_application_has_its_directory(tmp_path: Path, place: str) -> None:
    cache = VersionCache(place.format(tmp_path))
    cache.keep(*NAMED, TOLD)
    assert cache.of(*NAMED) is None
    assert not list(tmp_path.iterdir())
