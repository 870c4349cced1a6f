"""Bytes that unpack to gigabytes, for what is to be refused in little memory."""

import zlib
from typing import Any

import pyarrow as pa


def deflated(count: int) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(2**20)
    return b"".join(deflate.compress(zeros) for _ in range(count >> 20)) + deflate.flush()


def zstandard(count: int) -> bytes:
    whole: Any = pa.BufferOutputStream()
    with pa.CompressedOutputStream(whole, "zstd") as packed:
        for _ in range(count >> 20):
            packed.write(bytes(2**20))
    made: bytes = whole.getvalue().to_pybytes()
    return made


def avro_long(number: int) -> bytes:
    left, made = number << 1, b""
    while left > 127:
        made += bytes([left & 127 | 128])
        left >>= 7
    return made + bytes([left])


def avro_block(count: int, rows: bytes, sync: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflate.compress(rows) + deflate.flush()
    return avro_long(count) + avro_long(len(packed)) + packed + sync
