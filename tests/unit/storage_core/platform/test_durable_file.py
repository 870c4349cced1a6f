"""Small files: whole or told, published once, replaced at once."""

import errno
import json
import os
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.platform.durable_file import (
    encode_document,
    file_errors,
    make_directories,
    read_document,
    replace_durably,
    taking_errors,
    write_once,
)
from tests.log.on_disk import flip_bit
from tests.unit.storage_core.strategies import few

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
names = st.text(max_size=5).filter(lambda name: name != "checksum")
documents = st.dictionaries(names, json_values)


@few
@given(fields=documents)
def test_document_comes_back(tmp_path_factory, fields):
    path = tmp_path_factory.getbasetemp() / "document.json"
    path.write_bytes(encode_document(fields))
    assert read_document(path) == fields


def test_any_flipped_bit_is_told_by_the_path_or_changes_nothing(root):
    path, fields = root / "document.json", {"a": 1, "b": ["x", None], "c": 0.5}
    whole = encode_document(fields)
    for bit in range(len(whole) * 8):
        path.write_bytes(whole)
        flip_bit(path, bit // 8, bit % 8)
        try:
            assert read_document(path) == fields
        except CorruptionError as error:
            assert error.path == path  # noqa: PT017 - white space may change without harm


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b'{"a": 1}'])
def test_bytes_that_are_no_document_are_told_by_the_path(root, data):
    path = root / "document.json"
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match=r"document\.json"):
        read_document(path)


def test_document_is_json_that_people_can_read(root):
    (root / "document.json").write_bytes(encode_document({"b": 1, "a": 2}))
    assert list(json.loads((root / "document.json").read_text())) == ["a", "b", "checksum"]


def test_first_to_write_once_wins(root):
    assert write_once(root / "x", b"first")
    assert not write_once(root / "x", b"second")
    assert (root / "x").read_bytes() == b"first"


def test_replacing_leaves_nothing_but_the_new_contents(root):
    replace_durably(root / "x", b"old")
    replace_durably(root / "x", b"new")
    assert [(path.name, path.read_bytes()) for path in root.iterdir()] == [("x", b"new")]


def test_writing_once_leaves_no_draft_behind_either_way(root):
    for data in (b"first", b"second"):
        write_once(root / "x", data)
    assert [path.name for path in root.iterdir()] == ["x"]


@pytest.mark.parametrize("write", [replace_durably, write_once])
def test_disk_that_takes_no_more_has_no_draft_left(root, write):
    (root / "x").write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            write(root / "x", bytes(200))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(path.name, path.read_bytes()) for path in root.iterdir()] == [("x", b"old")]


def test_directories_above_are_made_too(root):
    make_directories(root / "a" / "b" / "c")
    make_directories(root / "a" / "b" / "c")
    assert (root / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_rights_that_lack_are_no_passing_failure(root, number):
    with pytest.raises(InvalidRequestError, match=r"^opening: .*; give .*\(at .*\)"):  # noqa: SIM117 - the outer one is the claim
        with taking_errors(root, "opening"):
            raise OSError(number, os.strerror(number))


def test_full_disk_may_have_room_later(root):
    with pytest.raises(UnavailableError, match="opening: No space left"):  # noqa: SIM117 - as above
        with taking_errors(root, "opening"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_refusal_of_the_operating_system_gets_a_kind_and_a_place(root):
    (root / "file").touch()
    with pytest.raises(UnavailableError, match=r"^making: Not a directory \(at .*file\)"):  # noqa: SIM117 - the outer one is the claim
        with file_errors(root / "file", "making"):
            (root / "file" / "below").mkdir()
