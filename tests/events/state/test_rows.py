"""Rows of state: the newest of an id wins, a DELETE takes it away, and none outlives its TTL."""

import pytest

from storage_core import InvalidRequestError, Stream, StreamReader
from storage_core.sql import connect
from tests.events.state.rows import TTL_S, StateBench, put_text
from tests.events.store.bench import rows_of, stored
from tests.tidy.test_readme import fenced, page
from typed_events.language.parse import parse_commands


def test_newest_row_of_an_id_wins(bench):
    bench.put("ann", "a", 1)
    bench.put("ann", "b", 2)
    bench.put("bob", "a", 3)
    bench.put("ann", "a", 4)
    assert bench.rows() == [("ann", "b", 2), ("bob", "a", 3), ("ann", "a", 4)]
    assert bench.rows("FOR ann") == [("ann", "b", 2), ("ann", "a", 4)]
    assert bench.rows('WHERE row = "a" ORDER BY x DESC') == [("ann", "a", 4), ("bob", "a", 3)]


def test_row_without_an_id_is_the_one_of_its_context(bench):
    bench.well('STORE cursor FOR ann PAYLOAD {"x": 1}')
    bench.put("ann", "", 2)
    bench.put("ann", "a", 3)
    assert bench.rows() == [("ann", "", 2), ("ann", "a", 3)]
    bench.delete("ann", "")
    assert bench.rows() == [("ann", "a", 3)]


def test_condition_is_on_the_newest_row_alone(bench):
    bench.put("ann", "a", 1)
    bench.put("ann", "a", 2)
    assert bench.rows("WHERE x = 1") == []
    assert bench.rows("AFTER 0:0 WHERE x = 2") == [("ann", "a", 2)]


def test_deleted_row_is_gone_until_it_is_stored_again(bench):
    bench.put("ann", "a", 1)
    bench.put("ann", "b", 2)
    assert bench.delete("ann", "a") == "deleted at 0:2"
    assert bench.rows() == [("ann", "b", 2)]
    # Of a row that is not there, too.
    bench.delete("ann", "nothing")
    bench.put("ann", "a", 3)
    assert bench.rows() == [("ann", "b", 2), ("ann", "a", 3)]


def test_row_past_its_ttl_is_not_there_whether_it_was_evicted_or_not(bench):
    bench.put("ann", "a", 1)
    bench.clock.advance(TTL_S)
    assert bench.rows() == [("ann", "a", 1)]
    bench.clock.advance(0.000_001)
    assert bench.rows() == []
    assert bench.figure("COUNT") == 0
    bench.store_of_events.maintain()
    assert bench.rows() == []


def test_row_that_is_stored_again_lives_on(bench):
    bench.put("ann", "a", 1)
    bench.clock.advance(TTL_S - 1)
    bench.put("ann", "a", 2)
    bench.clock.advance(TTL_S - 1)
    bench.store_of_events.maintain()
    assert bench.rows() == [("ann", "a", 2)]


def test_deletion_that_is_past_its_time_brings_no_row_back(bench):
    bench.put("ann", "a", 1)
    bench.clock.advance(1)
    bench.delete("ann", "a")
    for _ in range(3):
        bench.clock.advance(TTL_S / 2)
        bench.store_of_events.maintain()
        assert bench.rows() == []


def test_figures_count_the_rows_that_are_there(bench):
    for x in range(5):
        bench.put("ann", "a", x)
        bench.put("bob", "b", 10 * x)
    bench.put("bob", "c", 7)
    bench.delete("bob", "b")
    assert bench.figure("COUNT") == 2
    assert bench.figure("TOTAL x") == 11
    assert bench.figure("COUNT UNIQUE row") == 2
    answer = bench.well("QUERY cursor COUNT BY row")
    assert rows_of(answer) == [{"row": "a", "count": 1}, {"row": "c", "count": 1}]


def test_sequence_takes_the_rows_that_are_there(bench):
    bench.put("ann", "a", 1)
    bench.put("bob", "a", 1)
    bench.delete("bob", "a")
    for context in ("ann", "bob"):
        bench.must("order", context, amount=1)
    answer = bench.well("QUERY order PRECEDED BY cursor LINKED BY context_id")
    assert [(r["order.context_id"], r["cursor.row"]) for r in rows_of(answer)] == [("ann", "a")]


def test_replay_tells_all_that_is_still_stored(bench):
    bench.put("ann", "a", 1)
    bench.clock.advance(TTL_S - 1)
    bench.put("ann", "a", 2)
    bench.delete("ann", "a")
    bench.put("bob", "b", 3)
    replayed = rows_of(bench.well("REPLAY cursor FOR ann"))
    assert [(row["x"], row["deleted"]) for row in replayed] == [
        (1, False),
        (2, False),
        (None, True),
    ]
    bench.clock.advance(2)
    replayed = rows_of(bench.well("REPLAY cursor FOR ann"))
    assert [(row["id"], row["deleted"]) for row in replayed] == [("0:1", False), ("0:2", True)]


def test_replay_of_a_context_tells_events_alone(bench):
    bench.put("ann", "a", 1)
    bench.must("order", "ann", amount=1)
    assert [row["event_type"] for row in rows_of(bench.well("REPLAY FOR ann"))] == ["order"]


def test_expect_counts_events_alone(bench):
    bench.put("ann", "a", 1)
    bench.must("order", "ann", "EXPECT NONE", amount=1)
    bench.put("ann", "a", 2)
    bench.reopen()
    bench.must("order", "ann", "EXPECT 1", amount=1)
    refusal = bench.refused('STORE cursor FOR ann PAYLOAD {"x": 1} EXPECT 2')
    assert "EXPECT counts events" in refusal


def test_expect_counts_events_alone_within_a_batch(bench):
    bench.put("ann", "a", 1)
    for number in range(2):
        bench.well(
            f"BATCH [ DELETE cursor FOR ann ROW a; {put_text('ann', 'b', number)}; "
            f"{stored('order', 'ann', f'EXPECT {2 * number}', amount=1)}; "
            f"{stored('order', 'ann', f'EXPECT {2 * number + 1}', amount=2)} ]"
        )
    assert len(bench.events("order")) == 4


def test_events_have_no_rows_and_are_not_deleted(bench):
    assert "no rows" in bench.refused('STORE order FOR ann ROW 1 PAYLOAD {"amount": 1}')
    assert "never deleted" in bench.refused("DELETE order FOR ann ROW 1")
    assert bench.events("order") == []


def test_key_makes_a_retry_of_a_delete_safe(bench):
    bench.put("ann", "a", 1)
    first = bench.delete("ann", "a", 'IDEMPOTENCY "k"')
    bench.put("ann", "a", 2)
    assert bench.delete("ann", "a", 'IDEMPOTENCY "k"') == first
    assert bench.rows() == [("ann", "a", 2)]
    answer = bench.do('DELETE cursor FOR "ann" ROW "b" IDEMPOTENCY "k"')
    assert answer.status == "Conflict"


@pytest.mark.parametrize("row", ["a", "b"])
def test_key_of_a_row_is_for_that_row(bench, row):
    first = bench.put("ann", "a", 1, 'IDEMPOTENCY "k"')
    answer = bench.do(f'STORE cursor FOR ann ROW {row} PAYLOAD {{"x": 1}} IDEMPOTENCY "k"')
    assert (answer.message == first) is (row == "a")


def test_batch_takes_rows_deletions_and_events_together(bench):
    bench.put("ann", "a", 1)
    bench.well(
        'BATCH [ DELETE cursor FOR ann ROW a; STORE cursor FOR ann ROW b PAYLOAD { "x": 2 }; '
        f"{stored('order', 'ann', amount=1)} ]"
    )
    assert bench.rows() == [("ann", "b", 2)]
    refused = bench.do(
        'BATCH [ DELETE cursor FOR ann ROW b; STORE order FOR ann PAYLOAD { "amount": "x" } ]'
    )
    assert refused.status == "BadRequest"
    assert bench.rows() == [("ann", "b", 2)]


def test_commands_that_come_together_are_done_in_their_order(bench):
    text = (
        'STORE cursor FOR ann ROW a PAYLOAD {"x": 1}; DELETE cursor FOR ann ROW a; '
        'STORE cursor FOR ann ROW b PAYLOAD {"x": 2}'
    )
    answers = bench.store_of_events.execute_all(parse_commands(text))
    assert [answer.message for answer in answers] == [
        "stored at 0:0",
        "deleted at 0:1",
        "stored at 0:2",
    ]
    assert bench.rows() == [("ann", "b", 2)]


def test_many_rows_of_one_command_are_as_those_that_come_alone(bench):
    stores = [f'STORE cursor FOR ann ROW {n % 7} PAYLOAD {{"x": {n}}}' for n in range(100)]
    bench.well(f"BATCH [ {'; '.join(stores)} ]")
    assert sorted(bench.rows()) == [
        ("ann", str(n % 7), n) for n in sorted(range(93, 100), key=lambda n: n % 7)
    ]


def test_query_of_a_context_reads_its_rows_alone(bench):
    for n in range(50):
        bench.put(f"c-{n % 10}", "a", n)
    (read,) = [
        row["detail"]
        for row in rows_of(bench.well("EXPLAIN QUERY cursor FOR c-3"))
        if row["step"] == "hot rows of cursor"
    ]
    assert read == "5 read"


def test_explain_says_that_rows_are_state(bench):
    steps = {row["step"]: row["detail"] for row in rows_of(bench.well("EXPLAIN QUERY cursor"))}
    assert steps["state of cursor"] == "the newest row of each id, within TTL 30m"


def test_others_see_what_was_stored_with_its_row_in_the_headers(bench):
    bench.put("ann", "a", 1)
    bench.delete("ann", "a")
    with StreamReader.open(bench.root, "cursor") as reader:
        table = reader.read(keys=[b"ann"], tombstones=True, columns=["headers", "payload"])
        assert reader.options.never_cold
    headers = [{"key": "row", "value": b"a"}]
    assert table.column("headers").to_pylist() == [headers, headers]
    assert [payload is None for payload in table.column("payload").to_pylist()] == [False, True]


def test_rows_of_state_are_not_sealed_by_hand(bench):
    bench.put("ann", "a", 1)
    bench.close()
    with Stream.open(bench.root, "cursor") as stream:
        with pytest.raises(InvalidRequestError, match="is never_cold"):
            stream.seal()
        assert stream.parts() == []


def test_sql_of_the_guide_has_the_rows_that_are_there(bench):
    bench.put("ann", "a", 1)
    bench.put("ann", "a", 2)
    bench.put("bob", "", 3)
    bench.put("bob", "b", 4)
    bench.delete("bob", "b")
    (query,) = fenced(page("docs/EVENTS.md"), "sql")
    with connect(bench.root) as streams:
        table = streams.sql(query).to_arrow_table()
    rows = {(row["key"], row["x"]) for row in table.select(["key", "x"]).to_pylist()}
    assert rows == {(b"ann", 2), (b"bob", 3)}


def test_rows_of_several_shards_are_decided_each_in_its_own(root):
    bench = StateBench(root / "several", shards=4)
    for n in range(40):
        bench.put(f"c-{n % 8}", str(n % 2), n)
    for n in range(8):
        bench.delete(f"c-{n}", "0")
    assert sorted(bench.rows()) == [(f"c-{n % 8}", "1", n) for n in (33, 35, 37, 39)]
    bench.close()
