"""`shardlog seal`, `trim`, `parts` and `sql`: rows become parts, and answer in SQL."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from connectors.cli.commands.tiering import columns_of, row_of
from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_USAGE
from connectors.output_formats.aligned_table import AlignedTable
from storage_core import Part, Stream, StreamOptions
from storage_core.format.part_entry import PartEntry

NAME = "orders"
REPOSITORY = Path(__file__).parents[5]
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def root(tmp_path):
    with Stream.create(tmp_path, NAME, StreamOptions(shards=2)) as stream:
        for number in range(10):
            stream.append(FIRST_MS + number, number, b"v%d" % number)
    return tmp_path


def test_seal_says_what_it_made(shardlog, root):
    ran = shardlog("seal", root, NAME)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith("10 rows sealed in 2 parts, ")
    assert shardlog("seal", root, NAME).lines == [
        "'orders' has nothing to seal: no rows are unsealed"
    ]


def test_stream_that_is_never_cold_becomes_no_parts_by_a_command(shardlog, root):
    shardlog("alter", root, NAME, "never_cold=true")
    never = "is never_cold: its rows live shortly and become no parts"
    ran = shardlog("seal", root, NAME)
    hint = f"`shardlog alter {root} orders never_cold=false` lets them"
    assert (ran.code, ran.err) == (EXIT_USAGE, f"shardlog: 'orders' {never}; {hint}\n")
    assert shardlog("parts", root, NAME).lines == [f"'orders' {never}"]
    trimmed = shardlog("trim", root, NAME)
    assert trimmed.lines == [f"'orders' has nothing to trim: it {never}"]
    assert shardlog("seal", root, NAME, "--rebuild").code == EXIT_USAGE


def test_seal_tells_each_shard_in_json(shardlog, root):
    ran = shardlog("seal", root, NAME, "--json")
    expected = {"sealed_before": 0, "sealed": 5, "rows": 5, "parts": 1, "rebuilt": []}
    assert json.loads(ran.out) == [{"shard": 0, **expected}, {"shard": 1, **expected}]


def test_few_rows_may_wait(shardlog, root):
    assert shardlog("seal", root, NAME, "--rows-min", "6").lines == [
        "'orders' has nothing to seal: no shard has 6 unsealed rows"
    ]


def test_damaged_part_is_made_again(shardlog, root):
    shardlog("seal", root, NAME)
    with Stream.open(root, NAME) as stream:
        stream.parts()[1].path.write_bytes(b"nothing")
    assert shardlog("verify", root, NAME).code == EXIT_DAMAGE
    ran = shardlog("seal", root, NAME, "--rebuild")
    assert ran.code == 0
    assert ran.lines[0].startswith("shard 1: part-0000000000.rows has 7 bytes, expected ")
    assert ran.lines[0].endswith("; rebuilt as part-0000000001.rows, 5 rows")
    assert ran.lines[1:] == ["'orders' has nothing to seal: no rows are unsealed"]
    assert shardlog("verify", root, NAME).code == 0
    assert shardlog("sql", root, "SELECT count(*) AS n FROM orders").lines[1].split() == ["10"]


def test_part_that_is_lost_for_good_is_given_up_as_the_lines_say(shardlog, root):
    shardlog("seal", root, NAME)
    shardlog("trim", root, NAME)
    with Stream.open(root, NAME) as stream:
        part = stream.parts()[1].path
    part.unlink()
    ran = shardlog("verify", root, NAME)
    assert ran.code == EXIT_DAMAGE
    assert ran.lines[-1].endswith(str(part))
    assert shardlog("seal", root, NAME, "--rebuild").code == EXIT_DAMAGE
    loss = ("--shard=1", "--start=0", "--end=5", "--execute")
    ran = shardlog("accept-loss", root, NAME, *loss)
    assert ran.lines[1] == (
        f"`shardlog seal {root} orders --rebuild` removes damaged parts that had it"
    )
    ran = shardlog("seal", root, NAME, "--rebuild")
    assert ran.code == 0
    assert ran.lines[0].endswith(
        "is missing; removed: none of its rows is left, they expired or were accepted as lost"
    )
    assert shardlog("verify", root, NAME).code == 0
    assert shardlog("sql", root, "SELECT count(*) AS n FROM orders").lines[1].split() == ["5"]


def test_small_parts_become_larger_ones(shardlog, root):
    assert shardlog("compact", root, NAME).lines == [
        "'orders' has nothing to merge: it has 0 parts"
    ]
    for number in range(10, 20, 2):
        with Stream.open(root, NAME) as stream:
            stream.append(FIRST_MS + number, number, b"v%d" % number)
            stream.append(FIRST_MS + number, number + 1, b"v%d" % (number + 1))
            stream.commit()
            stream.seal()
    ran = shardlog("compact", root, NAME)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith("10 parts merged into 2; rewritten: 20 rows, ")
    assert shardlog("sql", root, "SELECT count(*) AS n FROM orders").lines[1].split() == ["20"]
    report = json.loads(shardlog("compact", root, NAME, "--json").out)
    assert report == [
        {"shard": shard, "merged": 0, "built": [], "rows": 0, "bytes": 0} for shard in (0, 1)
    ]


def test_trim_says_what_went_and_rows_are_read(shardlog, root):
    assert shardlog("trim", root, NAME).lines == [
        f"'orders' has nothing to trim: it has no parts; `shardlog seal {root} orders` writes some"
    ]
    shardlog("seal", root, NAME)
    before = shardlog("read", root, NAME, "--format", "json").out
    assert len(before.splitlines()) == 10
    assert shardlog("trim", root, NAME, "--keep-hot-hours", "1").lines == [
        "'orders' has nothing to trim: no block that old has all its rows in parts"
    ]
    ran = shardlog("trim", root, NAME)
    assert ran.code == 0
    assert ran.lines[0].startswith("2 blocks of ")
    assert ran.lines[0].endswith(" bytes trimmed; only in parts now: 10 rows")
    assert shardlog("read", root, NAME, "--format", "json").out == before
    ran = shardlog("verify", root, NAME)
    assert ran.code == 0
    assert ran.lines[:2] == [
        "orders: 10 rows checked, 0 of them late: no problems",
        "  read: 0 blocks of the log, 2 parts",
    ]
    assert shardlog("trim", root, NAME).lines == [
        "'orders' has nothing to trim: no block of the log has rows in parts"
    ]
    parsed = json.loads(shardlog("trim", root, NAME, "--json").out)
    assert parsed[0]["trimmed"] == parsed[0]["trimmed_before"] == 5


def test_hours_that_are_no_span_of_time_are_refused(shardlog, root):
    ran = shardlog("trim", root, NAME, "--keep-hot-hours", "1e300")
    assert ran.code == EXIT_USAGE
    assert "hours are out of range" in ran.err


def test_parts_are_listed_with_their_files(shardlog, root):
    assert shardlog("parts", root, NAME).lines == [
        f"'orders' has no parts: `shardlog seal {root} orders` writes some"
    ]
    shardlog("seal", root, NAME)
    ran = shardlog("parts", root, NAME)
    assert ran.lines[0].split()[:5] == ["shard", "file", "level", "rows", "bytes"]
    assert ran.lines[1].split()[:4] == ["0", "part-0000000000.rows", "0", "5"]
    assert ran.lines[1].endswith("  2023-11-14T22:13")
    wide = shardlog("parts", root, NAME, "--wide").lines
    assert wide[1].split()[:5] == ["0", "part-0000000000.rows", "raw", "0", "5"]
    assert "2023-11-14T22:13:20Z" in wide[1]
    listed = json.loads(shardlog("parts", root, NAME, "--json").out)
    assert [pq.read_table(one["file"]).num_rows for one in listed] == [5, 5]


def test_files_of_the_largest_parts_are_not_cut_at_80_columns():
    ms, size = FIRST_MS, 64 * 2**20
    proof = (b"", "a.Kind", 0, b"")
    entry = PartEntry(0, 10**10 - 1, 10**10, ms, ms, 10**6, size, ms, 1, False, *proof)
    row = row_of(Part(1023, Path(entry.file_name), entry), "ms")
    lines = AlignedTable(columns_of("ms")).lines([row])
    assert lines[1][:80].split()[1] == "part-9999999999.rows"
    assert lines[1][:79].endswith("  2023-11-14T22:13")


ANSWER = [
    {"secondary": 0, "n": 2, "text": "a,b", "l": [0], "at": None, "raw": b"v0"},
    {"secondary": 1, "n": 2, "text": 'say "x"', "l": None, "at": "2026-01-02", "raw": b"\xff"},
]
ASKED = """
    SELECT secondary, 2::TINYINT AS n, if(secondary = 0, 'a,b', 'say "x"') AS text,
        if(secondary = 0, [0], NULL) AS l, if(secondary = 0, NULL, DATE '2026-01-02') AS at,
        if(secondary = 0, payload, '\\xFF'::BLOB) AS raw
    FROM orders WHERE secondary < 2 ORDER BY secondary
"""


@pytest.mark.parametrize("is_sealed", [False, True])
def test_answer_is_the_same_in_every_form(shardlog, root, tmp_path, is_sealed):
    if is_sealed:
        shardlog("seal", root, NAME)
    lines = [json.loads(line) for line in shardlog("sql", root, ASKED, "-o", "jsonl").lines]
    assert [one["raw"] for one in lines] == ["v0", "/w=="]
    masked = [{**one, "raw": None, "raw_encoding": None} for one in lines]
    assert masked == [{**one, "raw": None, "raw_encoding": None} for one in ANSWER]
    head, *rows = csv.reader(io.StringIO(shardlog("sql", root, ASKED, "-o", "csv").out))
    assert head[:5] == ["secondary", "n", "text", "l", "at"]
    assert [row[:5] for row in rows] == [
        ["0", "2", "a,b", "[0]", ""],
        ["1", "2", 'say "x"', "", "2026-01-02"],
    ]
    table = shardlog("sql", root, ASKED).lines
    assert [line.split()[:2] for line in table] == [["secondary", "n"], ["0", "2"], ["1", "2"]]
    for name, read in (("x.parquet", pq.read_table), ("x.arrow", feather.read_table)):
        assert shardlog("sql", root, ASKED, "--to", tmp_path / name).code == 0
        records = read(tmp_path / name).to_pylist()
        assert [{**one, "at": one["at"] and str(one["at"])} for one in records] == ANSWER


def test_type_that_parquet_lacks_is_one_line(shardlog, root, tmp_path):
    query = "SELECT struct_pack(u := union_value(x := 1)) AS s FROM orders"
    ran = shardlog("sql", root, query, "--to", tmp_path / "x.parquet")
    assert ran.code == 2
    assert ran.err.startswith("shardlog: Parquet has no such type")
    assert ran.err.count("\n") == 1
    assert list(tmp_path.glob("*x.parquet*")) == []


@pytest.mark.parametrize(
    ("expression", "cell"),
    [
        ("1 AS headers", 1),
        ("[1] AS headers", [1]),
        ("[{'key': 'a', 'value': 1}] AS headers", [{"key": "a", "value": 1}]),
        ("5::UTINYINT AS state", 5),
        ("300 AS state", 300),
        ("map {'a': [map {'b': 1}]} AS m", {"a": [{"b": 1}]}),
        ("map {DATE '2026-01-02': 1} AS m", [["2026-01-02", 1]]),
        ("map {[1]: 2} AS m", [[[1], 2]]),
        ("[map {[1]: 2}]::MAP(INTEGER[], INTEGER)[1] AS m", [[[[1], 2]]]),
        ("map {'a'::ENUM('a', 'b'): 1} AS m", {"a": 1}),
    ],
)
def test_answer_may_call_anything_what_it_likes(shardlog, root, expression, cell):
    lines = {
        form: shardlog("sql", root, f"SELECT {expression}", "-o", form) for form in ("jsonl", "csv")
    }
    assert [ran.code for ran in lines.values()] == [0, 0]
    (value,) = json.loads(lines["jsonl"].out).values()
    assert value == cell
    (_, (text,)) = csv.reader(io.StringIO(lines["csv"].out))
    assert json.loads(text) == cell
    assert shardlog("sql", root, f"SELECT {expression}").code == 0
