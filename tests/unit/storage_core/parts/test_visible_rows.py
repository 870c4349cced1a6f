"""One rule of which rows are visible: SQL and the choice of files agree with a plain loop."""

from operator import ge, lt, ne

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.part_entry import ShardParts
from storage_core.format.record import State
from storage_core.format.shard_state import AddressRange
from storage_core.parts.visible_rows import COMPARED_COLUMNS, as_sql, visible_rows

OPERATORS = {"<": lt, ">=": ge, "<>": ne}
NUMBERS = st.integers(0, 20)
GAPS = st.lists(st.tuples(NUMBERS, NUMBERS).filter(lambda ends: ends[0] < ends[1]), max_size=3)
PARTS = st.builds(
    lambda floor, cut, gaps: ShardParts(
        21, (), floor, cut, tuple(AddressRange(start, end) for start, end in gaps)
    ),
    NUMBERS,
    NUMBERS,
    GAPS,
)
SHARDS = st.dictionaries(st.integers(0, 2), PARTS, min_size=1)
ROWS = st.lists(st.tuples(st.integers(0, 2), NUMBERS, NUMBERS, st.integers(0, 3)), max_size=30)


def is_visible(row: tuple[int, int, int, int], shards: dict[int, ShardParts]) -> bool:
    """Tell as GUARANTEES says it, of a row of one of the shards."""
    shard, primary, address, state = row
    parts = shards[shard]
    is_lost = any(gap.start <= address < gap.end for gap in parts.gaps)
    return (
        state != State.EXPIRED and primary >= parts.floor and address >= parts.cut and not is_lost
    )


@given(SHARDS, ROWS)
def test_sql_and_clauses_show_what_a_plain_loop_shows(shards, rows):
    rows = [row for row in rows if row[0] in shards]
    visible = [row for row in rows if is_visible(row, shards)]
    clauses = visible_rows(shards)

    def holds(row):
        values = dict(zip(COMPARED_COLUMNS, row, strict=True))
        return all(any(OPERATORS[sign](values[name], n) for name, sign, n in c) for c in clauses)

    assert [row for row in rows if holds(row)] == visible
    values = ", ".join(map(str, [*rows, (9, -1, -1, int(State.EXPIRED))]))
    names = ", ".join(f'"{name}"' for name in COMPARED_COLUMNS)
    query = f"SELECT * FROM (VALUES {values}) AS t({names}) WHERE {as_sql(clauses)}"
    with duckdb.connect() as connection:
        assert sorted(connection.sql(query).fetchall()) == sorted(visible)
