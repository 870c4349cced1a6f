"""Goal: what is wrong comes out of any method of an answer of SQL as an error of the log.

Method: an answer is asked for; then the part that it rests on is damaged, or goes; then its rows
are fetched in each of the ways there are.
"""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import CorruptionError, InvalidRequestError, StreamReader, UnavailableError
from storage_core.sql import connect
from tests.log.parts.parts_lab import NAME, PartsLab, schema_of

ORDERS = 12_000
ALL = f"SELECT address, number FROM {NAME}"
FETCHES: dict[str, Callable[[Any], Any]] = {
    "fetchall": lambda answer: answer.fetchall(),
    "fetchnumpy": lambda answer: answer.fetchnumpy(),
    "to_arrow_table": lambda answer: answer.to_arrow_table(),
    "to_arrow_reader": lambda answer: answer.to_arrow_reader(100).read_all(),
    "batches": lambda answer: list(answer.to_arrow_reader(100)),
    "iter_rows": lambda answer: list(answer.iter_rows()),
    "to_dicts": lambda answer: answer.to_dicts(),
    "show": lambda answer: answer.show(),
    "repr": repr,
    "str": str,
    "len": len,
    "shape": lambda answer: answer.shape,
    "column": lambda answer: answer["number"].fetchall(),
    "filter": lambda answer: answer.filter("address > 3").fetchall(),
    "order": lambda answer: answer.order("number").limit(3).fetchall(),
    "aggregate": lambda answer: answer.aggregate("max(length(number))").fetchall(),
    "group_by": lambda answer: answer.group_by("number").agg("count(*)").fetchall(),
    "union": lambda answer: answer.union(answer).fetchall(),
    "query": lambda answer: answer.query("a", "SELECT max(length(number)) FROM a").fetchall(),
    "materialize": lambda answer: answer.materialize().fetchall(),
    "explain": lambda answer: answer.explain("analyze"),
}


@pytest.fixture
def root(tmp_path):
    lab = PartsLab(tmp_path)
    schema = schema_of([{"name": "number", "type": "string"}], "Order")
    rng = np.random.default_rng(8)
    # So long that the file is not read as a whole with its end.
    lab.append_values(schema, [{"number": rng.bytes(99).hex()} for _ in range(ORDERS)], 30)
    lab.stream.seal()
    lab.stream.close()
    return tmp_path


def part_of(root):
    with StreamReader.open(root, NAME) as reader:
        (part,) = reader.parts()
    return part


# Ends of files say how many rows there are.
@pytest.mark.parametrize("name", sorted(FETCHES.keys() - {"len", "shape"}))
def test_damage_comes_out_of_each_method_as_an_error_with_its_place(root, name):
    part = part_of(root)
    with connect(root) as streams:
        answer = streams.sql(ALL)
        part.path.write_bytes(bytes(part.entry.size))
        with pytest.raises(CorruptionError, match="as they were published") as raised:
            FETCHES[name](answer)
    reported = raised.value
    assert (reported.stream, reported.shard, reported.path) == (NAME, part.shard, part.path)
    assert (reported.start, reported.end) == (0, ORDERS)
    assert "\n" not in str(reported)


@pytest.mark.parametrize("name", ["fetchall", "batches", "iter_rows", "filter", "show"])
def test_part_that_has_gone_comes_out_as_an_error_that_says_to_look_anew(root, name):
    with connect(root) as streams:
        answer = streams.sql(ALL)
        part_of(root).path.unlink()
        with pytest.raises(UnavailableError, match="take a new one"):
            FETCHES[name](answer)


@pytest.mark.parametrize("name", sorted(FETCHES))
def test_rows_of_an_answer_are_those_of_duckdb(root, name):
    with connect(root) as streams:
        ours, its = streams.sql(ALL), streams.relation(ALL)
        result, expected = FETCHES[name](ours), FETCHES[name](its)
        assert type(result) is type(expected)
        if name == "group_by":
            result, expected = sorted(result), sorted(expected)
        assert name in ("fetchnumpy", "explain") or result == expected
        assert ours.columns == its.columns


def test_mistake_in_a_step_is_told_in_a_line(root):
    with connect(root) as streams:
        answer = streams.sql(ALL)
        for step in (
            lambda: answer.filter("nothing > 3"),
            lambda: answer.project("wrong(number)"),
        ):
            with pytest.raises(InvalidRequestError) as raised:
                step()
            assert "\n" not in str(raised.value)
        for missing in (lambda: answer["nothing"], lambda: answer.nothing):
            with pytest.raises(AttributeError, match="nothing"):
                missing()
        with pytest.raises((TypeError, AttributeError)):
            pickle.dumps(answer)


def test_answer_is_rows_to_other_libraries(root):
    with connect(root) as streams:
        table = pa.table(streams.sql(ALL))
        assert table.num_rows == ORDERS
        streams.connection.register("again", streams.sql(ALL).to_arrow_table())
        assert streams.connection.sql("SELECT count(*) FROM again").fetchall() == [(ORDERS,)]


def test_refresh_is_refused_while_rows_are_fetched_and_can_be_made_up_for(tmp_path):
    lab = PartsLab(tmp_path)
    schema = schema_of([{"name": "number", "type": "string"}], "Order")

    def add(count):
        lab.append_values(schema, [{"number": f"{at:099}"} for at in range(count)], 30)
        lab.stream.seal()

    # So many that they are not all opened before the first row is fetched.
    for _ in range(12):
        add(8192)
    rows = 12 * 8192
    count = f"SELECT count(*) FROM {NAME}"
    with connect(tmp_path, [NAME]) as streams:
        reader = streams.sql(ALL).to_arrow_reader(1000)
        # Parts of other names.
        lab.stream.compact()
        add(100)
        with pytest.raises(InvalidRequestError, match="open result"):
            streams.refresh()
        assert reader.read_all().num_rows == rows
        streams.refresh()
        for ask in (streams.connection.sql, streams.sql):
            assert ask(count).fetchall() == [(rows + 100,)]
    lab.stream.close()
