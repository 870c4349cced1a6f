"""Errors, identities and what calls return come back from their documents as they were."""

import json
from pathlib import Path

import pytest

from storage_core import ShardlogError, Stream, StreamOptions, StreamOrigin, StreamReader, errors
from storage_core.format.schema_entry import SchemaEntry
from storage_core.protocol import (
    CALLS,
    StreamFacts,
    decode_error,
    decode_result,
    encode_error,
    encode_lineages,
    encode_result,
    error_from_answer,
    matches_lineages,
    status_of,
)
from storage_core.protocol.results import CODECS
from storage_core.sql.access.served_snapshot import served_snapshot
from storage_core.transactions.documents import StagingFacts, decode_facts, encode_facts

_KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ShardlogError)
]


@pytest.mark.parametrize("kind", _KINDS)
def test_every_error_comes_back_as_itself_with_its_place(kind: type[ShardlogError]) -> None:
    error = kind("what", stream="s", shard=0, path=Path("/there"), start=0, end=2)
    back = decode_error(json.loads(json.dumps(encode_error(error))))
    assert type(back) is kind
    assert str(back) == str(error)
    assert vars(back) == vars(error)
    assert status_of(error) >= 400


def test_error_of_a_kind_that_is_not_in_the_table_goes_as_the_one_above_it() -> None:
    class Finer(errors.CorruptionError):
        """One that another package has."""

    assert encode_error(Finer("x"))["error"]["kind"] == "CorruptionError"
    unknown = decode_error({"error": {"kind": "Newer", "message": "x", "shard": "no number"}})
    assert type(unknown) is ShardlogError
    assert unknown.shard is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (502, errors.UnavailableError),
        (429, errors.UnavailableError),
        (404, errors.InvalidRequestError),
    ],
)
@pytest.mark.parametrize("body", [b"<html>", b"", b"{}", b"[]", b'{"error": 1}', b"\xff"])
def test_answer_of_somebody_else_is_a_typed_error(
    status: int, body: bytes, kind: type[ShardlogError]
) -> None:
    error = error_from_answer(status, body, "a:8085")
    assert type(error) is kind
    assert "a:8085" in str(error)


def test_lineages_match_while_shards_are_added_only() -> None:
    three = {0: "aa", 1: "bb", 2: "cc"}
    text = encode_lineages({0: "aa", 1: "bb"})
    assert matches_lineages(text, three)
    assert not matches_lineages(text, {**three, 1: "dd"})
    assert not matches_lineages(encode_lineages(three), {0: "aa", 1: "bb"})
    for damaged in ("", ".", "-1.x", "2", "9" * 5000, "².", "0-999999999.", "2-1.x", "0,0,0,0.x"):
        assert not matches_lineages(damaged, three)


def test_lineages_match_whatever_number_a_shard_has_that_was_added() -> None:
    text = encode_lineages({3: "dd", 4: "ee", 9: "jj"})
    assert matches_lineages(text, {0: "aa", 3: "dd", 4: "ee", 5: "ff", 9: "jj"})
    assert not matches_lineages(text, {0: "aa", 3: "dd", 4: "xx", 5: "ff", 9: "jj"})
    assert not matches_lineages(text, {0: "aa", 3: "dd", 4: "ee"})
    assert matches_lineages(encode_lineages({}), {1: "aa"})


def test_what_a_reader_returns_comes_back(tmp_path: Path) -> None:
    with Stream.create(tmp_path, "rides", StreamOptions(shards=2, jitter=5)) as stream:
        for primary in range(20):
            stream.append(primary, primary % 3, b"x")
    with StreamReader.open(tmp_path, "rides") as reader:
        values = {
            "committed": reader.committed(),
            "position": reader.position(),
            "lost_ranges": {0: [(1, 3)], 1: []},
            "parts": reader.parts(),
            "stats": reader.stats(),
            "horizon": reader.horizon(1),
            "missing": reader.missing(0, 0, 3),
            "source": reader.source(0),
            "schemas": [SchemaEntry(7, b"\x01", "{}")],
            "refresh": StreamFacts(
                *("rides", "ab", reader.options, reader.origin),
                *({0: "aa"}, {0: 3}, reader.committed()),
            ),
        }
        state = reader.shard(0).state()
    for name, value in values.items():
        call = CALLS[name]
        assert decode_result(call, encode_result(call, value)) == value, name
    back = decode_result(CALLS["state"], encode_result(CALLS["state"], state))
    assert (back.tail, back.lineage, back.committed) == (state.tail, state.lineage, state.committed)


def test_parts_and_an_origin_come_back(tmp_path: Path) -> None:
    origin = StreamOrigin("kafka", "t", "id", "integer", "timestamp")
    facts = StreamFacts("t", "ab", StreamOptions(), origin, {}, {}, {})
    call = CALLS["facts"]
    assert decode_result(call, encode_result(call, facts)) == facts
    with Stream.create(tmp_path, "s", StreamOptions(shards=1)) as stream:
        for primary in range(50):
            stream.append(primary, 1, b"x")
        stream.commit()
        stream.seal(rows_min=1)
        parts = stream.parts()
    assert parts
    assert decode_result(CALLS["parts"], encode_result(CALLS["parts"], parts)) == parts


def test_options_of_a_newer_server_are_left_out() -> None:
    facts = StreamFacts("t", "ab", StreamOptions(), None, {}, {}, {})
    document = json.loads(encode_result(CALLS["facts"], facts))
    options = document["result"]["options"]
    options |= {"newer": 1, "index": {**options["index"], "newer": 2}}
    assert decode_result(CALLS["facts"], json.dumps(document).encode()) == facts
    staging = StagingFacts("ab", StreamOptions(), None)
    assert decode_facts({**encode_facts(staging), "options": options}) == staging


def test_every_call_that_answers_in_json_has_its_document() -> None:
    assert {call.name for call in CALLS.values() if call.answer == "json"} == set(CODECS)


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"result": 3}', b"[1]"])
def test_document_of_somebody_else_is_foreign(body: bytes) -> None:
    with pytest.raises(errors.ForeignDataError):
        decode_result(CALLS["committed"], body)


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("committed", {"0": None}),
        ("committed", {"0": 2**63}),
        ("start", "3"),
        ("wait", None),
        ("horizon", [0, "x"]),
        ("streams", [7]),
        ("missing", [[0, None]]),
        ("owners", {"0": {"born": "0", "start": 0, "committed": 1, "floor": 0, "holder": None}}),
        ("snapshot", {"parts": [], "shards": {}, "groups": [{"schema": "", "parts": []}]}),
    ],
)
def test_document_with_values_of_another_type_is_foreign(name: str, result: object) -> None:
    with pytest.raises(errors.ForeignDataError):
        decode_result(CALLS[name], json.dumps({"result": result}).encode())


def test_snapshot_whose_groups_lack_a_part_is_foreign(tmp_path: Path) -> None:
    with Stream.create(tmp_path, "s", StreamOptions(shards=1)) as stream:
        for primary in range(50):
            stream.append(primary, 1, b"x")
        stream.commit()
        stream.seal(rows_min=1)
    call = CALLS["snapshot"]
    with StreamReader.open(tmp_path, "s") as reader:
        document = json.loads(encode_result(call, served_snapshot(reader)))
    assert decode_result(call, json.dumps(document).encode()).parts
    whole = document["result"]
    for count in (0, 2):
        other = {"result": {**whole, "groups": count * whole["groups"]}}
        with pytest.raises(errors.ForeignDataError, match="other parts"):
            decode_result(call, json.dumps(other).encode())
