"""Asks a broker or a registry the smallest real question, without any client library.

A port is open long before a broker serves. It answers when its metadata names a broker and a
controller:

    request   length i32 | api 3 i16 | version 1 i16 | correlation i32 | client id i16+bytes
              | topics i32 = 0 (none)
    answer    length i32 | correlation i32 | brokers i32, each (id i32, host i16+bytes, port i32,
              rack i16+bytes or -1) | controller i32 | topics …
"""

import http.client
import socket
import struct
from typing import Final
from urllib.parse import urlsplit

_ASK_MAX_S: Final = 5.0
_ANSWER_BYTES_MAX: Final = 1 << 16
_METADATA_REQUEST: Final = struct.pack(">hhih8si", 3, 1, 1, 8, b"shardlog", 0)
_REGISTRY_PATH: Final = "/subjects"


def is_broker_answering(bootstrap: str) -> bool:
    """Tell whether a plaintext broker at `host:port` names itself and a controller."""
    host, _, port = bootstrap.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _ASK_MAX_S) as connection:
            connection.sendall(struct.pack(">i", len(_METADATA_REQUEST)) + _METADATA_REQUEST)
            (size,) = struct.unpack(">i", _received(connection, 4))
            if not 0 < size <= _ANSWER_BYTES_MAX:
                return False
            return is_serving(_received(connection, size))
    except (OSError, ValueError, struct.error):
        return False


def is_serving(answer: bytes) -> bool:
    """Tell whether a metadata answer names a broker and a controller."""
    _, brokers = struct.unpack_from(">ii", answer)
    at = 8
    for _ in range(brokers):
        at += 4
        at += 2 + struct.unpack_from(">h", answer, at)[0] + 4
        at += 2 + max(0, struct.unpack_from(">h", answer, at)[0])
    (controller,) = struct.unpack_from(">i", answer, at)
    return bool(brokers > 0 and controller >= 0)


def is_registry_answering(url: str) -> bool:
    """Tell whether a schema registry lists its subjects."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_ASK_MAX_S)
    try:
        connection.request("GET", parts.path.rstrip("/") + _REGISTRY_PATH)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def is_open(host: str, port: int) -> bool:
    """Tell whether something accepts connections there."""
    try:
        socket.create_connection((host, port), _ASK_MAX_S).close()
    except OSError:
        return False
    return True


def _received(connection: socket.socket, size: int) -> bytes:
    return connection.recv(size, socket.MSG_WAITALL)
