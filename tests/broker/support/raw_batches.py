"""Batches written byte by byte, as no client writes them, and sent to a broker as they are.

A number may be longer than it has to be, an unused attribute set: the broker takes both.
"""

import gzip
import socket
import struct
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tests.waiting import WAIT_MAX_S

_PRODUCE, _VERSION, _GZIP, _ALL = 0, 3, 1, -1


def _crc32c_table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)  # noqa: PLW2901 - bit by bit
        table.append(crc)
    return table


_CRC32C: Final = _crc32c_table()


class RawRecord(NamedTuple):
    """What a record holds."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def encoded(record: RawRecord, index: int, odd: Random | None = None) -> bytes:
    """Return the record that stands at a place of its batch; written oddly by this chance."""

    def number(value: int) -> bytes:
        return _varint(value, odd.choice((0, 0, 0, 1, 2)) if odd else 0)

    def sized(content: bytes | None) -> bytes:
        return number(-1) if content is None else number(len(content)) + content

    body = bytes([odd.choice((0, 0, 0x80, 0xFF)) if odd else 0]) + number(index % 7) + number(index)
    body += sized(record.key) + sized(record.value) + number(len(record.headers))
    for name, content in record.headers:
        body += sized(name.encode()) + sized(content)
    return number(len(body)) + body


def send_batch(
    bootstrap: str, topic: str, records: Sequence[bytes], *, is_packed: bool, time_ms: int
) -> None:
    """Send encoded records as one batch to partition 0."""
    content = b"".join(records)
    last, codec = len(records) - 1, _GZIP if is_packed else 0
    times = (time_ms, time_ms + max(6, last))
    summed = struct.pack(">hiqqqhii", codec, last, *times, -1, -1, -1, len(records))
    summed += gzip.compress(content, 1) if is_packed else content
    batch = struct.pack(">ibI", -1, 2, _crc32c(summed)) + summed
    batch = struct.pack(">qi", 0, len(batch)) + batch
    name = struct.pack(">h", len(topic)) + topic.encode()
    request = struct.pack(">hhihhhi", _PRODUCE, _VERSION, 0, -1, -1, _ALL, int(WAIT_MAX_S * 1000))
    request += struct.pack(">i", 1) + name + struct.pack(">iii", 1, 0, len(batch)) + batch
    host, port = bootstrap.split(",", maxsplit=1)[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), WAIT_MAX_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answers:
            answer = answers.read(struct.unpack(">i", answers.read(4))[0])
    # Behind the request's number, one topic, its name, one partition, its number.
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + len(name) + 4 + 4)
    assert error == 0, f"the broker refused a batch: error {error}"


def _varint(value: int, longer: int) -> bytes:
    left, written = (value << 1 ^ value >> 63) & 2**64 - 1, bytearray()
    while left >= 0x80:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    for _ in range(longer):
        written[-1] |= 0x80
        written.append(0)
    return bytes(written)


def _crc32c(content: bytes) -> int:
    crc = 2**32 - 1
    for byte in content:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 2**32 - 1
