"""Blocks: what goes in comes out, and bytes that are not the block which belongs here never do."""

import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError
from storage_core.format.block import (
    HEADER_BYTES,
    MASK_ADDRESS,
    MASK_STATE,
    MASK_VERSION,
    Block,
    BlockPlace,
    block_checksum,
    block_schema,
    decode_block,
    encode_block,
)
from storage_core.format.record import Rows, rows_from_arrow
from storage_core.format.row_columns import ENVELOPE
from storage_core.read.columns import block_columns
from tests.log.workbench import batch_of
from tests.unit.storage_core.strategies import (
    addresses_of,
    few,
    int32_array,
    int64_array,
    places,
    rows,
    states_of,
)

HERE = BlockPlace(b"lineage of 16 by", 3)
CODECS = ("none", "lz4", "zstd")


def three_rows(**envelope: pa.Array) -> Rows:
    payload = pa.array([b"a", None, b""], pa.binary())
    return Rows(int32_array([7, -7, 7]), int64_array([1, 2, 3]), None, payload, envelope)


def three_row_block(place: BlockPlace = HERE, first: int = 10) -> bytes:
    addresses = int64_array([first, first + 1, first + 2])
    return encode_block(three_rows(), None, addresses, place, 5, "none")


def decoded(data: bytes, place: BlockPlace = HERE, first: int = 10) -> Block:
    """Read bytes whose zone vouches for them."""
    return decode_block(data, place, first, block_checksum(data))


def with_header(data: bytes, offset: int, value: bytes) -> bytes:
    """Change header bytes and make the header's own checksum match."""
    header = bytearray(data[: HEADER_BYTES - 8])
    header[offset : offset + len(value)] = value
    checksum = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(header)))
    return bytes(header) + checksum + data[HEADER_BYTES:]


@few
@given(st.data(), rows(), st.sampled_from([None, 0, 3]), st.sampled_from(CODECS))
def test_schemas_of_a_blocks_rows_come_back(data, given_rows, only, codec):
    count = len(given_rows)
    if only is None:
        numbers = data.draw(st.lists(st.none() | st.integers(0, 2), min_size=count, max_size=count))
    else:
        numbers = [None if one is None else only for one in given_rows.payload.to_pylist()]
    with_numbers = given_rows.with_schemas(pa.array(numbers, pa.int32()))
    block = decoded(encode_block(with_numbers, None, np.arange(count), HERE, 9, codec), first=0)
    assert block.schemas.to_pylist() == numbers
    columns = block_columns(block, 0, ("schema", "primary"), None)
    assert columns.column(0).to_pylist() == numbers
    chosen = np.arange(count)[::2]
    part = block_columns(block, 0, ("schema",), chosen)
    assert part.column(0).to_pylist() == numbers[::2]


@pytest.mark.parametrize("payloads", [[b"a", b"b"], [b"a", None]])
def test_one_schema_takes_no_byte_of_a_block(payloads):
    payload = pa.array(payloads, pa.binary())
    plain = Rows(int32_array([1, 2]), int64_array([1, 2]), None, payload, {})
    numbers = pa.array([None if payload is None else 5 for payload in payloads], pa.int32())
    sizes = [
        len(encode_block(rows, None, int64_array([0, 1]), HERE, 9, "none"))
        for rows in (plain, plain.with_schemas(numbers))
    ]
    assert sizes[0] == sizes[1]


@few
@given(st.data(), rows(), places, st.sampled_from(CODECS))
def test_block_comes_back(data, given_rows, place, codec):
    states = data.draw(states_of(len(given_rows)))
    addresses = data.draw(addresses_of(len(given_rows)))
    first = int(addresses[0])
    block = decoded(encode_block(given_rows, states, addresses, place, 99, codec), place, first)
    assert (block.first, block.last, block.committed_at_ms) == (first, int(addresses[-1]), 99)
    assert columns_of(block) == {
        "address": addresses.tolist(),
        "state": None if states is None else states.tolist(),
        **row_columns(given_rows),
    }


@few
@given(st.data(), rows(), st.sampled_from(CODECS))
def test_block_of_a_slice_is_that_of_rows_that_never_had_others_beside_them(data, all_rows, codec):
    start = data.draw(st.integers(0, len(all_rows) - 1))
    end = data.draw(st.integers(start + 1, len(all_rows)))
    sliced = all_rows.slice(start, end)
    lonely = replace(
        sliced,
        payload=pa.array(sliced.payload.to_pylist(), pa.binary()),
        envelope={name: pa.array(c.to_pylist(), c.type) for name, c in sliced.envelope.items()},
    )
    addresses = np.arange(len(sliced))
    blocks = [encode_block(one, None, addresses, HERE, 5, codec) for one in (sliced, lonely)]
    assert blocks[0] == blocks[1]


@pytest.mark.parametrize("name", ["payload", "key", "headers", "timestamp"])
@pytest.mark.parametrize("start", [0, 1])
def test_block_of_a_slice_holds_no_byte_of_the_rows_beside_it(name, start):
    secret = b"secret!!"
    ours_and_secret = {
        "payload": (b"a", secret * 9),
        "key": (b"a", secret * 9),
        "headers": (
            [{"key": "a", "value": b"a"}],
            [{"key": secret.decode() * 9, "value": secret * 9}],
        ),
        "timestamp": (1, int.from_bytes(secret, "little")),
    }
    columns: dict[str, object] = {
        column: [ours, ours, other if column == name else ours]
        for column, (ours, other) in ours_and_secret.items()
    }
    rows = rows_from_arrow(batch_of(range(3), **columns), 2**20).slice(start, 2)
    data = encode_block(rows, None, int64_array(range(2 - start)), HERE, 5, "none")
    assert b"secret" not in data


def columns_of(block: Block) -> dict[str, object]:
    """Return everything a block says of its rows."""
    return {
        "address": block.addresses.tolist(),
        "state": None if block.states is None else block.states.tolist(),
        "secondary": block.secondaries.tolist(),
        "primary": block.primaries.tolist(),
        "version": None if block.versions is None else block.versions.tolist(),
        **{
            name: block.batch.column(name).to_pylist()
            for name in ("payload", *ENVELOPE)
            if name in block.batch.schema.names
        },
    }


def row_columns(given_rows: Rows) -> dict[str, object]:
    return {
        "secondary": given_rows.secondary.tolist(),
        "primary": given_rows.primary.tolist(),
        "version": None if given_rows.version is None else given_rows.version.tolist(),
        "payload": given_rows.payload.to_pylist(),
        **{name: column.to_pylist() for name, column in given_rows.envelope.items()},
    }


@few
@given(st.integers(0, 127))
def test_each_bit_of_the_mask_adds_one_column(mask):
    assert len(block_schema(mask)) == 3 + mask.bit_count()
    assert block_schema(mask).names[:3] == ["secondary", "primary", "payload"]


def test_column_of_one_value_is_not_stored():
    block = decoded(three_row_block())
    assert block.batch.schema == block_schema(0)
    assert block.states is None
    assert block.versions is None
    assert block.addresses.tolist() == [10, 11, 12]


def test_states_versions_and_gaps_are_stored_where_they_differ():
    versioned = replace(three_rows(), version=np.array([0, 1, 0], dtype=np.uint16))
    states, addresses = np.array([0, 1, 0], dtype=np.uint8), int64_array([10, 12, 13])
    block = decoded(encode_block(versioned, states, addresses, HERE, 5, "none"))
    assert block.batch.schema == block_schema(MASK_VERSION | MASK_STATE | MASK_ADDRESS)


def test_tombstone_differs_from_an_empty_payload():
    assert decoded(three_row_block()).batch.column("payload").to_pylist() == [b"a", None, b""]


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_codec_makes_repetitive_blocks_smaller(codec):
    many = three_rows().take(np.zeros(1000, dtype=np.int64))
    addresses = np.arange(1000)
    plain, packed = (
        encode_block(many, None, addresses, HERE, 5, chosen) for chosen in ("none", codec)
    )
    assert len(packed) < len(plain) / 3


@few
@given(st.data())
def test_flipped_bit_is_refused(data):
    whole = bytearray(three_row_block())
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    checksum = block_checksum(bytes(whole))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptionError, match=r"checksum.*shard 3, addresses \[10, 11\)"):
        decode_block(bytes(whole), HERE, 10, checksum)


@few
@given(st.data())
def test_cut_block_is_refused(data):
    whole = three_row_block()
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(CorruptionError):
        decode_block(part, HERE, 10, block_checksum(whole))


def test_header_alone_is_no_block():
    with pytest.raises(CorruptionError):
        decoded(three_row_block()[: HEADER_BYTES - 1])


@pytest.mark.parametrize(
    ("place", "first"),
    [
        (replace(HERE, lineage=b"another lineage!"), 10),
        (replace(HERE, shard=4), 10),
        (HERE, 11),
    ],
    ids=["foreign lineage", "foreign shard", "swapped with another"],
)
def test_block_of_another_place_is_refused_though_whole(place, first):
    with pytest.raises(CorruptionError, match="another shard"):
        decoded(three_row_block(place, first))


@pytest.mark.parametrize(
    ("offset", "value"),
    [(0, b"XXXX"), (4, b"\x02\x00"), (6, b"\x03"), (8, b"\x00\x02\x00\x00")],
    ids=["magic", "format", "codec", "mask"],
)
def test_block_of_another_format_is_refused(offset, value):
    with pytest.raises(CorruptionError, match="another shard or has another format"):
        decoded(with_header(three_row_block(), offset, value))


def test_header_that_miscounts_its_rows_is_refused():
    with pytest.raises(CorruptionError, match="count differs"):
        decoded(with_header(three_row_block(), 32, b"\x02\x00\x00\x00"))


def test_header_has_the_documented_length_and_magic():
    assert HEADER_BYTES == 72
    assert three_row_block()[:6] == b"SLBK\x01\x00"
