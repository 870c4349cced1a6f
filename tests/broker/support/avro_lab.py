"""Schemas of a real registry, and topics of values written by them."""

import json
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from storage_core import StreamReader
from tests.broker.support.lab import Lab, Topic
from tests.unit.connectors.framed import record_schema, written
from tests.waiting import WAIT_MAX_S

AT = {"type": "long", "logicalType": "timestamp-millis"}
READING = record_schema(("device", "int"), ("at", AT), ("value", "double"))
START_MS = 1_767_355_200_000


def register(registry: str, subject: str, text: str, kind: str = "AVRO") -> int:
    """Register a schema and return its id."""
    request = Request(  # noqa: S310 - the registry's own address
        f"{registry}/subjects/{subject}/versions",
        json.dumps({"schema": text, "schemaType": kind}).encode(),
        {"Content-Type": "application/json"},
    )
    with build_opener(ProxyHandler({})).open(request, timeout=WAIT_MAX_S) as answer:
        schema_id: int = json.load(answer)["id"]
    return schema_id


def value_of(schema_id: int, text: str, fields: Mapping[str, Any]) -> bytes:
    """Return a value as a registry's serializer frames it."""
    return b"\x00" + struct.pack(">I", schema_id) + written(text, fields)


def reading(schema_id: int, number: int, text: str = READING, **more: Any) -> bytes:
    fields = {"device": number % 7, "at": START_MS + number, "value": number / 2, **more}
    return value_of(schema_id, text, fields)


def avro_settings(registry: str, **more: Any) -> dict[str, Any]:
    """Return what a worker of Avro values is told."""
    return {
        "stream__value_format": "avro",
        "stream__primary": "field:at",
        "stream__secondary": "field:device",
        "schema__registry__url": registry,
        **more,
    }


def send(lab: Lab, topic: Topic, values: Mapping[int, bytes | None], partition: int = 0) -> None:
    """Produce values, the key of each its number."""
    with lab.producer() as producer:
        for number, value in values.items():
            producer.send(topic.name, b"k%d" % number, value, None, None, partition)
            topic.produced[b"k%d" % number, value] += 1
    assert producer.first_failure is None, producer.first_failure


def stored_rows(lab: Lab, topic: Topic, *columns: str) -> list[dict[str, Any]]:
    with StreamReader.open(lab.root, topic.name) as reader:
        return [
            row
            for shard in sorted(reader.committed())
            for batch in reader.tail(shard, columns=[*columns])
            for row in batch.select([*columns]).to_pylist()
        ]


class RegistryDoor:
    """A port of our own that leads to the registry while it is open."""

    def __init__(self, registry: str) -> None:
        parts = urlsplit(registry)
        self._behind = (parts.hostname or "", parts.port or 80)
        self._listener = self._listening(0)
        self._port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}{parts.path}"

    def shut(self) -> None:
        """Let nobody in; it is as if the registry were gone."""
        with suppress(OSError):
            # Who waits for comers closes it.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._door.join()

    def open(self) -> None:
        """Let everybody in again."""
        self._listener = self._listening(self._port)

    def _listening(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        self._door = threading.Thread(target=self._let_in, args=(listener,), daemon=True)
        self._door.start()
        return listener

    def _let_in(self, listener: socket.socket) -> None:
        with listener, suppress(OSError):
            while True:
                comer, _ = listener.accept()
                behind = socket.create_connection(self._behind)
                threading.Thread(target=_joined, args=(comer, behind), daemon=True).start()


def _joined(comer: socket.socket, behind: socket.socket) -> None:
    """Pass on what either side sends, until both have ended."""
    with comer, behind:
        back = threading.Thread(target=_passed, args=(behind, comer), daemon=True)
        back.start()
        _passed(comer, behind)
        back.join()


def _passed(source: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(2**16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
