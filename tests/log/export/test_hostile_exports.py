"""Goal: an export that lies is refused by one typed line, soon, in little memory, and not taken.

Method: an export is changed by hand, number by number, and its checksum and digests made to hold
again: whoever sent it can do that too. Files are put in its place that unpack to gigabytes.
"""

import json
import os
import shutil
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    ShardlogError,
    Stream,
    StreamOptions,
    StreamReader,
    UnsupportedFormatError,
)
from storage_core.export import export_stream, import_stream
from storage_core.platform.durable_file import encode_document
from tests.children import run_script
from tests.log.export.bombs import avro_block, avro_long, deflated, zstandard
from tests.log.export.forging import OTHER_FIELDS
from tests.log.parts.parts_lab import FIRST_MS, FORMS, NAME

ROWS = 100
MANY = 2**62
# What a file may take in the tests of what would take hundreds of times that.
FILE_BYTES = 2**24


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Exports of a stream of a hundred rows by their form, each made once."""
    place = tmp_path_factory.mktemp("made")
    columns = {
        "primary": range(FIRST_MS, FIRST_MS + ROWS),
        "secondary": pa.array([at % 3 for at in range(ROWS)], pa.int32()),
        "payload": [b"%d" % at for at in range(ROWS)],
    }
    with Stream.create(place / "data", NAME, StreamOptions(shards=1)) as stream:
        stream.append_batch(pa.table(columns))
    for form in FORMS:
        export_stream(place / "data", NAME, place / form, file_format=form)
    return place


@pytest.fixture
def exported(made, root):
    """Copy such an export; return where to."""
    return lambda form: shutil.copytree(made / form, root / "x")


@pytest.fixture(params=FORMS)
def export(exported, request):
    return exported(request.param)


def manifest_of(export: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((export / "manifest.json").read_text())
    del result["checksum"]
    return result


def sign(export: Path, document: dict[str, Any]) -> None:
    (export / "manifest.json").write_bytes(encode_document(document))


def refused(export: Path, reported: str | None = None, **how: Any) -> ShardlogError:
    """Import it, and see it refused with nothing taken."""
    with pytest.raises(ShardlogError, match=reported) as raised:
        import_stream(export.parent / "back", NAME, export, **how)
    assert len(str(raised.value)) < 700
    assert "\n" not in str(raised.value)
    assert not (export.parent / "back" / NAME).exists()
    return raised.value


# --- the manifest ----------------------------------------------------------------------------

FILE = ("row_ranges", 0, "files", 0)
PLACE = ("exported_shards", "0")
NUMBERS = [
    *((*FILE, name) for name in ("rows", "bytes", "first", "schema")),
    *((*FILE, "prefixes", 0, name) for name in ("bytes", "rows")),
    *(("row_ranges", 0, name) for name in ("shard", "start", "end")),
    *((*PLACE, name) for name in ("born", "start", "committed")),
    *(("rows",), ("bytes",), ("shards",), ("options", "shards"), ("options", "jitter")),
]
STRANGE = [MANY - 1, MANY * 4, -1, 7.5, True, "7", None, [], {}, float("nan")]


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Change a value of a document; return what it was."""
    *before, last = path
    for step in before:
        document = document[step]
    was, document[last] = document[last], value
    return was


@pytest.mark.parametrize("path", NUMBERS, ids=lambda path: ".".join(map(str, path)))
def test_number_that_no_export_has_is_refused(exported, path):
    export = exported("jsonl")
    usual = manifest_of(export)
    for value in STRANGE:
        document = json.loads(json.dumps(usual))
        if put(document, path, value) is None and value is None:
            continue
        sign(export, document)
        assert isinstance(refused(export), CorruptionError)


# `first` says only where the rows of a file that is gone began.
COUNTED = [path for path in NUMBERS if path[-1] != "first"]


@pytest.mark.parametrize("path", COUNTED, ids=lambda path: ".".join(map(str, path)))
def test_number_that_is_a_little_false_is_refused(exported, path):
    export = exported("jsonl")
    document = manifest_of(export)
    was = put(document, path, 1)
    put(document, path, was + 1 if isinstance(was, int) else 1)
    sign(export, document)
    refused(export)


TEXTS = [
    *((*FILE, name) for name in ("value_schema", "name")),
    *(
        (name,)
        for name in ("export", "file_format", "codec", "key_mode", "options", "selection", "format")
    ),
    *((name,) for name in ("exported_shards", "schemas", "row_ranges", "origin", "stream")),
    *((*PLACE, name) for name in ("gaps", "lost", "source", "lineage")),
    *((*FILE, "prefixes"), (*FILE, "prefixes", 0, "digest"), ("row_ranges", 0, "files")),
]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: ".".join(map(str, path)))
def test_value_of_another_kind_is_refused_or_means_nothing(root, exported, path):
    export = exported("jsonl")
    usual = manifest_of(export)
    values: tuple[Any, ...] = (7, "x" * 10_000, [[]], {"next": "x"}, ["\ud800"], None)
    for value in values:
        document = json.loads(json.dumps(usual))
        put(document, path, value)
        sign(export, document)
        with suppress(ShardlogError):
            import_stream(root / f"back-{type(value).__name__}", NAME, export)


NAMES = [
    *("../x", "/etc/passwd", "..", ".", "", "a/b", "a\0b", "\ud800", "a" * 300, "a\\b", "é"),
    *("manifest.json\n", ".hidden"),
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_name_that_leads_elsewhere_is_refused(exported, name):
    export = exported("jsonl")
    document = manifest_of(export)
    put(document, (*FILE, "name"), name)
    sign(export, document)
    refused(export, "not a file name")


def test_chunk_of_a_shard_that_is_not_there_is_refused(export):
    document = manifest_of(export)
    put(document, ("row_ranges", 0, "shard"), 7)
    sign(export, document)
    assert "shard 7" in str(refused(export))


def test_chunks_that_have_an_address_twice_are_refused(export):
    document = manifest_of(export)
    document["row_ranges"] *= 2
    document["rows"] *= 2
    document["bytes"] *= 2
    sign(export, document)
    refused(export, "is repeated")
    first, second = json.loads(json.dumps(document["row_ranges"]))
    second["files"][0]["name"] = "other"
    document["row_ranges"] = [first, second]
    sign(export, document)
    refused(export, "row ranges overlap")


def test_manifest_that_leaves_rows_out_is_refused(export):
    document = manifest_of(export)
    document["row_ranges"], document["rows"], document["bytes"] = [], 0, 0
    sign(export, document)
    refused(export, "the shard ends at 100, but row ranges end at 0")


def test_addresses_without_rows_are_told_by_chunks_and_come_back(root):
    with Stream.create(root / "data", NAME, StreamOptions(shards=2)) as stream:
        rows = {"primary": [1], "secondary": pa.array([0], pa.int32()), "payload": [b"x"]}
        stream.append_batch(pa.table(rows), shard=0, addresses=[5])
        stream.append_batch(pa.table(rows).slice(0, 0), shard=0, source={"next": 9})
    export_stream(root / "data", NAME, root / "x")
    assert [(one["start"], one["end"]) for one in manifest_of(root / "x")["row_ranges"]] == [
        (0, 6),
        (6, 9),
    ]
    import_stream(root / "back", NAME, root / "x")
    with StreamReader.open(root / "back", NAME) as reader:
        assert reader.committed() == {0: 9, 1: 0}


@pytest.mark.parametrize(
    ("written", "reported"),
    [("shardlog-export", "before 0.1.0"), ("shardlog-export/2", "'shardlog-export/2'; this")],
)
def test_export_of_another_version_is_refused_by_name(export, written, reported):
    sign(export, manifest_of(export) | {"format": written})
    with pytest.raises(UnsupportedFormatError, match=rf"{reported}.*manifest\.json"):
        import_stream(export.parent / "back", NAME, export)


@pytest.mark.parametrize(("change", "reported"), OTHER_FIELDS)
def test_export_with_other_fields_under_the_same_format_says_which(made, root, change, reported):
    export = shutil.copytree(made / "parquet", root / "x")
    change(manifest := manifest_of(export))
    sign(export, manifest)
    assert isinstance(error := refused(export, reported), UnsupportedFormatError)
    assert "import it with that one" in error.message


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"[" + b"[]," * 2_000_000 + b"[]]",
        b"9" * 5_000,
        b"\xff\xfe",
        b"",
    ],
    ids=["deep list", "deep object", "many lists", "long number", "no text", "nothing"],
)
def test_text_that_is_no_manifest_is_refused(root, text):
    (root / "x").mkdir()
    (root / "x" / "manifest.json").write_bytes(text)
    refused(root / "x", file_bytes_max=FILE_BYTES)


# --- files that are none ---------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(b"x")
    path.symlink_to(path.with_name("elsewhere"))


def loop(path: Path) -> None:
    path.symlink_to(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS = [pipe, link, loop, zeros, Path.mkdir]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("choice", ["manifest.json", "rows"])
def test_what_is_no_file_is_refused_at_once(export, make, choice):
    name = manifest_of(export)["row_ranges"][0]["files"][0]["name"]
    path = export / (name if choice == "rows" else choice)
    path.unlink()
    make(path)
    assert refused(export, "regular files only").path == path


# --- rows that do not fit --------------------------------------------------------------------


def rewrite(export: Path, data: bytes, rows: int = ROWS, **of_file: Any) -> None:
    """Put other bytes in the place of the export's file, and let the manifest prove them."""
    document = manifest_of(export)
    file = document["row_ranges"][0]["files"][0]
    (export / file["name"]).write_bytes(data)
    digest = xxhash.xxh3_128_hexdigest(data)
    file |= {
        "bytes": len(data),
        "rows": rows,
        "prefixes": [{"bytes": len(data), "rows": rows, "digest": digest}],
        **of_file,
    }
    document["row_ranges"][0]["end"] = document["exported_shards"]["0"]["committed"] = max(
        rows, ROWS
    )
    document["rows"], document["bytes"] = rows, len(data)
    sign(export, document)


def data_of(export: Path) -> bytes:
    name: str = manifest_of(export)["row_ranges"][0]["files"][0]["name"]
    return (export / name).read_bytes()


def lines_with(export: Path, **changed: Any) -> bytes:
    rows = [json.loads(line) for line in data_of(export).splitlines()]
    rows[50] |= changed
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


NO_TEXTS: tuple[Any, ...] = ([], {"a": 1}, 7.5)
NO_HEADERS: tuple[Any, ...] = (7, [7], [{"key": None, "value": ""}], [{}])


@pytest.mark.parametrize(
    "changed",
    [
        *({"address": one} for one in (51, -1, MANY, 100, None, 1.5, "7")),
        *({"shard": one} for one in (1, -1, None, 2**40)),
        *({"state": one} for one in (9, -1, None, 300)),
        *({"version": one} for one in (-1, 2**16, None)),
        *({"primary": one} for one in (2**63, None, "x")),
        *({"secondary": one} for one in (2**31, None)),
        *({"payload": one} for one in NO_TEXTS),
        *({"headers": one} for one in NO_HEADERS),
        *({"schema": one} for one in (0, -1, 2**40)),
        {"payload_base64": "no base64"},
        {"timestamp_type": 2**20},
    ],
    ids=str,
)
def test_row_that_no_export_has_is_refused(root, exported, changed):
    export = exported("jsonl")
    rewrite(export, lines_with(export, **changed))
    with pytest.raises(ShardlogError):
        import_stream(root / "back", NAME, export)
    if (root / "back" / NAME).exists():
        with StreamReader.open(root / "back", NAME) as reader:
            assert reader.read().num_rows == 0


def test_value_that_begins_outside_of_its_row_is_refused(exported):
    export = exported("avro")
    data = data_of(export)
    begin = data.find(data[-16:]) + 16
    for index in (0, 7, 10**6, 2**32 - 1):
        row = struct.pack("<II", 60, index) + bytes(52)
        rewrite(export, data[:begin] + avro_block(ROWS, row * ROWS, data[-16:]), schema=None)
        refused(export, "no export wrote this file")


# --- bombs -----------------------------------------------------------------------------------


def refused_in_little(export: Path) -> None:
    """See it refused in a process that holds little more than before."""
    script = f"""
import os, resource
import pyarrow.parquet
from storage_core.export import import_stream
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
try:
    place, export = {str(export.parent / "back")!r}, {str(export)!r}
    import_stream(place, {NAME!r}, export, file_bytes_max={FILE_BYTES})
except ValueError as error:
    assert "--file-mib-max" in str(error), error
    assert peak() - before < 120, peak() - before
    os._exit(0)
os._exit(1)
"""
    assert run_script(script) == 0
    assert not (export.parent / "back" / NAME).exists()


@pytest.mark.parametrize(("codec", "packed"), [("deflate", deflated), ("zstandard", zstandard)])
def test_block_of_gigabytes_is_refused_in_little_memory(exported, codec, packed):
    export = exported("avro")
    document = manifest_of(export)
    document["codec"] = codec
    sign(export, document)
    data, bomb = data_of(export), packed(2**28)
    begin = data.find(data[-16:]) + 16
    rewrite(export, data[:begin] + avro_long(ROWS) + avro_long(len(bomb)) + bomb + data[-16:])
    refused_in_little(export)


def test_block_of_many_short_rows_is_refused_in_little_memory(exported):
    export = exported("avro")
    data = data_of(export)
    begin = data.find(data[-16:]) + 16
    rewrite(export, data[:begin] + avro_block(ROWS, struct.pack("<II", 8, 8) * 2**20, data[-16:]))
    refused_in_little(export)


def test_many_blocks_of_a_row_each_are_refused(exported):
    export = exported("avro")
    data = data_of(export)
    begin = data.find(data[-16:]) + 16
    rows = zlib.decompress(data[begin + 4 : -16], -15)
    item = avro_block(ROWS, rows[: int.from_bytes(rows[:4], "little")], data[-16:])
    rewrite(export, data[:begin] + 20 * item, rows=20)
    refused(export, "--file-mib-max", file_bytes_max=2**20)


@pytest.mark.parametrize("kind", [b"\xf9\x09", b"\xfc\x00"], ids=["lists", "structs"])
def test_footer_of_many_values_is_refused_in_little_memory(exported, kind):
    export = exported("parquet")
    footer = b"\x19" + kind[:1] + b"\x80\x80\x80\x01" + kind[1:] * 2**21 + b"\x00"
    rewrite(export, b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")
    refused_in_little(export)


def parquet_of(rows: pa.Table, **how: Any) -> bytes:
    file: Any = pa.BufferOutputStream()
    pq.write_table(rows, file, store_schema=False, **how)
    made: bytes = file.getvalue().to_pybytes()
    return made


def repeated(export: Path, count: int, **columns: Any) -> pa.Table:
    """Return rows with the columns of an export's file, alike but for these."""
    rows = pq.read_table(pa.BufferReader(data_of(export)))
    first: Any = pa.array(np.zeros(count, np.int64))
    made = {name: rows.column(name).combine_chunks().take(first) for name in rows.column_names}
    return pa.table({**made, "address": pa.array(np.arange(count)), **columns})


def test_large_value_of_a_dictionary_is_refused_in_little_memory(exported):
    export = exported("parquet")
    count = 100_000
    places: Any = pa.array(np.zeros(count, np.int32))
    value = pa.DictionaryArray.from_arrays(places, [b"A" * 4096])
    rows = repeated(export, count, payload=value)
    rewrite(export, parquet_of(rows, compression="zstd", use_dictionary=["payload"]), count)
    refused_in_little(export)


def test_page_of_gigabytes_is_refused_in_little_memory(exported):
    export = exported("parquet")
    count = 3
    rows = repeated(export, count, payload=pa.array([bytes(2**26)] * count))
    packed = parquet_of(rows, compression="zstd", use_dictionary=False, data_page_size=2**31 - 1)
    rewrite(export, packed, count)
    refused_in_little(export)


def test_row_of_many_headers_is_refused_in_little_memory(exported):
    export = exported("parquet")
    count, kind = 2_000_000, pa.binary()
    parts = pa.array(np.full(count, "")), pa.nulls(count, kind)
    fields: Any = [pa.field("key", pa.string(), nullable=False), pa.field("value", kind)]
    offsets = pa.array([0] * ROWS + [count], pa.int32())
    headers = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(parts, fields=fields))
    rewrite(export, parquet_of(repeated(export, ROWS, headers=headers), compression="zstd"))
    refused_in_little(export)


def test_other_encoding_than_an_export_has_is_refused(exported):
    export = exported("parquet")
    rows = repeated(export, ROWS)
    how = {"use_dictionary": False, "column_encoding": {"payload": "DELTA_BYTE_ARRAY"}}
    rewrite(export, parquet_of(rows, **how))
    refused(export, "an encoding that no export writes")


def test_line_of_many_objects_is_refused_in_little_memory(exported):
    export = exported("jsonl")
    lines = data_of(export).splitlines(keepends=True)
    bomb = lines[0].rstrip(b"}\n") + b',"value":[' + b"[]," * 1_200_000 + b"[]]}\n"
    rewrite(export, b"".join([bomb, *lines[1:]]))
    refused_in_little(export)


def test_file_that_is_allowed_more_is_taken(export):
    with pytest.raises(InvalidRequestError, match="--file-mib-max"):
        import_stream(export.parent / "back", NAME, export, file_bytes_max=1000)
    assert import_stream(export.parent / "back", NAME, export, file_bytes_max=10**6).rows == ROWS


@pytest.mark.parametrize("value", [0, -1, 2**31, True, "7", None])
def test_bound_that_is_none_is_refused(export, value):
    with pytest.raises(InvalidRequestError, match="file_bytes_max"):
        import_stream(export.parent / "back", NAME, export, file_bytes_max=value)
