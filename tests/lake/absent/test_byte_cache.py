"""Goal: the cache of bytes is bounded, keeps what is used, and never stops a read.

Method: bytes are put and taken by a clock that moves when told; the directory is damaged, filled,
or may not be written to.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from storage_core.lake.absent.byte_cache import ByteCache
from storage_core.testing import ManualClock

KIB = 2**10
MINUTES_S = 120


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def cache(tmp_path, clock):
    return ByteCache(tmp_path / "cache", 64 * KIB, clock)


def bytes_in(tmp_path):
    return sum(file.stat().st_size for file in (tmp_path / "cache").iterdir())


def test_bytes_are_kept_by_name(cache):
    assert cache.get("a-0-3") is None
    cache.put("a-0-3", b"abc")
    assert cache.get("a-0-3") == b"abc"
    cache.drop("a-0-3")
    assert cache.get("a-0-3") is None
    cache.drop("a-0-3")


def test_bytes_that_were_used_longest_ago_go_first(cache, clock, tmp_path):
    for number in range(60):
        cache.put(name_of(number), bytes(4 * KIB))
        os.utime(tmp_path / "cache" / name_of(number), ns=(clock.now_ns(), clock.now_ns()))
        clock.advance(MINUTES_S)
        assert cache.get(name_of(0)) is not None
        assert cache.get(name_of(number)) is not None
        assert bytes_in(tmp_path) <= 64 * KIB
    assert cache.get(name_of(1)) is None


def test_what_is_larger_than_all_is_not_kept(cache):
    cache.put("a", b"a")
    cache.put("b", bytes(65 * KIB))
    assert (cache.get("a"), cache.get("b")) == (b"a", None)


def test_no_cache_keeps_nothing(tmp_path, clock):
    cache = ByteCache(tmp_path / "cache", 0, clock)
    cache.put("a", b"a")
    assert cache.get("a") is None
    assert not (tmp_path / "cache").exists()


def test_no_cache_reads_nothing_of_what_another_has_kept(cache, tmp_path, clock):
    cache.put("a", b"a")
    off = ByteCache(tmp_path / "cache", 0, clock)
    assert (off.get("a"), off.file("a", 1)) == (None, None)
    assert cache.get("a") == b"a"


def test_place_that_takes_nothing_is_no_error(tmp_path, clock):
    (tmp_path / "file").touch()
    cache = ByteCache(tmp_path / "file", 64 * KIB, clock)
    cache.put("a", b"a")
    assert cache.get("a") is None


@pytest.mark.parametrize("error", [LookupError, FileNotFoundError])
def test_file_that_fails_on_its_way_leaves_nothing(cache, tmp_path, error):
    def pieces():
        yield b"a"
        raise error

    with pytest.raises(error):
        cache.put_file("a", pieces(), 2)
    assert not list((tmp_path / "cache").iterdir())


def test_many_may_use_one_directory(tmp_path, clock):
    caches = [ByteCache(tmp_path / "cache", 64 * KIB, clock) for _ in range(4)]
    numbers = count()

    def used(cache):
        for _ in range(200):
            number = next(numbers) % 50
            cached = cache.get(name_of(number))
            assert cached in (None, bytes([number]) * 4 * KIB)
            if cached is None:
                cache.put(name_of(number), bytes([number]) * 4 * KIB)

    with ThreadPoolExecutor(len(caches)) as threads:
        for done in [threads.submit(used, cache) for cache in caches]:
            done.result()
    # What each puts once it has looked is there beside what another has put meanwhile.
    assert bytes_in(tmp_path) <= 64 * KIB + len(caches) * 4 * KIB


def test_files_of_others_stay_however_full_it_is(cache, clock, tmp_path):
    (tmp_path / "cache").mkdir()
    for name in ("notes.txt", ".hidden", "part.parquet", f"{'a' * 32}-x-4"):
        (tmp_path / "cache" / name).write_bytes(bytes(64 * KIB))
        os.utime(tmp_path / "cache" / name, (1, 1))
    for number in range(60):
        cache.put(name_of(number), bytes(4 * KIB))
        clock.advance(MINUTES_S)
    others = [file for file in (tmp_path / "cache").iterdir() if file.stat().st_size > 4 * KIB]
    assert len(others) == 4
    assert cache.get(name_of(59)) is not None


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_has_no_bytes_and_holds_up_nobody(cache, tmp_path, put):
    cache.put(name_of(1), b"a")
    path = tmp_path / "cache" / name_of(1)
    path.unlink()
    put(path)
    assert cache.get(name_of(1)) is None
    assert cache.file(name_of(1), 0) is None
    cache.put(name_of(1), b"b")
    assert cache.get(name_of(1)) == b"b"


def name_of(number):
    """Return the name of the first bytes of a part."""
    return f"{number:032x}-0-{4 * KIB}"
