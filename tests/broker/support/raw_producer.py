"""A producer as C, Go or Rust programs are: it may name a header with any bytes.

Python's client takes texts only, so librdkafka is called by itself, the one that the client
brings along.
"""

import ctypes
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_FLUSH_MS = 60_000
_TEXT_BYTES = 512
_KEY = b"\x01\x02\x03\x04"
_VALUE = b"poison"
# Tags of rd_kafka_producev's arguments, and the flag that lets it copy them.
_END, _TOPIC, _PARTITION, _VALUE_TAG, _KEY_TAG, _FLAGS, _HEADER = 0, 1, 3, 4, 5, 7, 9
_COPY = 2


def produce_with_raw_header(bootstrap: str, topic: str, name: bytes) -> None:
    """Produce one record whose header has these bytes for a name."""
    library = _library()
    error = ctypes.create_string_buffer(_TEXT_BYTES)
    size = ctypes.c_size_t(_TEXT_BYTES)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set(settings, b"bootstrap.servers", bootstrap.encode(), error, size)
    producer = ctypes.c_void_p(library.rd_kafka_new(0, settings, error, size))
    failed = library.rd_kafka_producev(
        producer,
        *(ctypes.c_int(_TOPIC), ctypes.c_char_p(topic.encode())),
        *(ctypes.c_int(_PARTITION), ctypes.c_int32(0)),
        *(ctypes.c_int(_VALUE_TAG), ctypes.c_char_p(_VALUE), ctypes.c_size_t(len(_VALUE))),
        *(ctypes.c_int(_KEY_TAG), ctypes.c_char_p(_KEY), ctypes.c_size_t(len(_KEY))),
        *(ctypes.c_int(_FLAGS), ctypes.c_int(_COPY)),
        *(ctypes.c_int(_HEADER), ctypes.c_char_p(name), ctypes.c_char_p(b"v"), ctypes.c_ssize_t(1)),
        ctypes.c_int(_END),
    )
    assert failed == 0
    assert library.rd_kafka_flush(producer, ctypes.c_int(_FLUSH_MS)) == 0


def _library() -> Any:
    spec = find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent.with_name("confluent_kafka.libs")
    (path,) = folder.glob("librdkafka*.so*")
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new"):
        getattr(library, name).restype = ctypes.c_void_p
    return library
