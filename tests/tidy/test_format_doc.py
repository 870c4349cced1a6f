"""The hex in docs/FORMAT.md is real: it decodes, and to what stands beside it.

A line of an example is bytes, then (where it is one field) the field's name and value. A value is a
number, little-endian, or a text in quotes; whatever else stands there is a remark.
"""

import re
from dataclasses import asdict, dataclass

import pytest
import xxhash

from storage_core.format.block import HEADER_BYTES, Block, BlockPlace, block_checksum, decode_block
from storage_core.format.keys import log_key, zone_key
from storage_core.format.marker_slot import decode_slot, encode_slot
from storage_core.format.reference import decode_reference, encode_reference
from storage_core.format.zone import Zone, decode_secondaries, decode_zone, encode_zone
from tests.tidy.tree import ROOT

LINE = re.compile(r"([0-9a-f]{2}(?: [0-9a-f]{2})*)(?: {2,}(\w+)(?: +(.+))?)?")
EXAMPLES = ["block", "reference", "zone", "marker slot"]
RECORDS = re.compile(
    r"address (\d+), primary\s(\d+), secondary (\d+), (?:payload `(\w+)`|(a tombstone))"
)


@dataclass(frozen=True)
class Field:
    """One line of an example."""

    data: bytes
    name: str
    value: str


def section(title: str) -> str:
    """Return what stands below an example's heading, up to the end of its hex."""
    text = (ROOT / "docs/FORMAT.md").read_text(encoding="utf-8")
    return text.split(f"\n### Example: {title}\n")[1].split("\n```\n")[0]


def example(title: str) -> list[Field]:
    """Return the lines of an example."""
    matches = [LINE.fullmatch(line) for line in section(title).split("```hex\n")[1].splitlines()]
    assert all(matches)
    return [Field(bytes.fromhex(m[1]), m[2] or "", m[3] or "") for m in matches if m]


def joined(title: str) -> bytes:
    return b"".join(field.data for field in example(title))


def numbers(title: str) -> dict[str, int]:
    """Return the fields of an example that the document states as numbers."""
    return {
        field.name: int(field.value)
        for field in example(title)
        if re.fullmatch(r"-?\d+", field.value)
    }


def the_zone() -> Zone:
    return decode_zone(40, joined("zone"), 0)


def the_block() -> Block:
    place = BlockPlace(next(f.data for f in example("block") if f.name == "lineage"), 0)
    return decode_block(joined("block"), place, 40, the_zone().checksum)


@pytest.mark.parametrize("title", EXAMPLES)
def test_bytes_of_each_field_are_the_value_beside_them(title: str) -> None:
    for field in example(title):
        if field.value.startswith('"'):
            assert field.data.decode() == field.value.strip('"')
    for field in (f for f in example(title) if re.fullmatch(r"-?\d+", f.value)):
        is_signed = field.value.startswith("-")
        assert int.from_bytes(field.data, "little", signed=is_signed) == int(field.value), field


def test_marker_slot_decodes_as_stated() -> None:
    state = decode_slot(joined("marker slot"))
    assert state is not None
    assert encode_slot(state) == joined("marker slot")
    stated = numbers("marker slot")
    assert {name: stated[name] for name in ("sequence", "generation", "committed")} == {
        name: number for name, number in asdict(state).items() if name != "lineage"
    }


def test_reference_decodes_as_stated() -> None:
    stated = numbers("reference")
    reference = decode_reference(joined("reference"))
    assert encode_reference(reference) == joined("reference")
    assert list(reference) == [stated[name] for name in ("segment", "offset", "size")]
    assert reference.size == len(joined("block"))


def test_zone_decodes_as_stated() -> None:
    zone = the_zone()
    assert encode_zone(zone) == joined("zone")
    stated = numbers("zone")
    fields = {name: value for name, value in asdict(zone).items() if name in stated}
    assert len(fields) == len(asdict(zone)) - len({"checksum", "sections"})
    assert fields == {name: stated[name] for name in fields}


def test_block_decodes_as_stated() -> None:
    block, stated = the_block(), numbers("block")
    assert (len(block), block.first, block.last) == tuple(
        stated[name] for name in ("count", "first", "last")
    )
    assert block.committed_at_ms == stated["committed_at_ms"]
    rows = RECORDS.findall(section("block"))
    assert [int(row[0]) for row in rows] == block.addresses.tolist()
    assert [int(row[1]) for row in rows] == block.primaries.tolist()
    assert [int(row[2]) for row in rows] == block.secondaries.tolist()
    payloads = [None if row[4] else row[3].encode() for row in rows]
    assert payloads == block.batch.column("payload").to_pylist()
    ids = decode_secondaries(the_zone().sections)
    assert ids is not None
    assert ids.tolist() == sorted(block.secondaries.tolist())


def test_checksums_and_sizes_are_those_stated() -> None:
    data = joined("block")
    fields = {field.name: field.data for field in example("block")}
    assert fields["checksum"] == xxhash.xxh3_64_intdigest(data[: HEADER_BYTES - 8]).to_bytes(
        8, "little"
    )
    assert (the_zone().checksum, the_zone().block_bytes) == (block_checksum(data), len(data))


def test_keys_are_those_stated() -> None:
    assert f"`{log_key(40).hex(' ')}`" in section("block")
    assert f"`{zone_key(40).hex(' ')}`" in section("zone")
