"""Loads the compiled library of `native/` and binds it to confluent_kafka's librdkafka.

It is built by a C compiler when shardlog is installed, or comes in the wheel. Without it there is a
reason, and records are fetched in Python.
"""

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from confluent_kafka import cimpl

LIBRARY: Final = Path(__file__).parent / "native" / "fetch.so"
# As in fetch.h.
_ABI: Final = 5
ERROR_TEXT_MAX: Final = 512
_POINTER: Final = ctypes.c_void_p
_NUMBER: Final = ctypes.c_int64
COLUMNS: Final = (
    "offsets",
    "timestamps",
    "kinds",
    "misnamed",
    "keys_valid",
    "keys_ends",
    "keys",
    "values_valid",
    "values_ends",
    "values",
    "headers_valid",
    "headers_ends",
    "names_valid",
    "names_ends",
    "names",
    "contents_valid",
    "contents_ends",
    "contents",
    "runs",
    "topics",
    "fault_topic",
    "fault_text",
)


class FetchResult(ctypes.Structure):
    """`struct fetch_result` of fetch.h."""

    records: int
    runs: int
    has_fault: int
    left: int
    bytes: int
    null_keys: int
    null_values: int
    with_headers: int
    headers: int
    null_contents: int
    misnamed: int
    fault_code: int
    fault_partition: int
    fault_offset: int
    starts: "ctypes.Array[ctypes.c_int64]"
    size: "ctypes.Array[ctypes.c_int64]"

    _fields_ = [
        *(
            (name, _NUMBER)
            for name in (
                "records",
                "runs",
                "has_fault",
                "left",
                "bytes",
                "null_keys",
                "null_values",
                "with_headers",
                "headers",
                "null_contents",
                "misnamed",
                "fault_code",
                "fault_partition",
                "fault_offset",
            )
        ),
        ("starts", _NUMBER * len(COLUMNS)),
        ("size", _NUMBER * len(COLUMNS)),
    ]


# Result and parameters of what is called; fetch.h, client.c and columns.c say what it does.
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "abi": (ctypes.c_int, ()),
    "bind": (ctypes.c_char_p, (ctypes.c_char_p,)),
    "counters": (None, (_POINTER,)),
    "open": (_POINTER, (_POINTER,)),
    "detach": (None, (_POINTER,)),
    "free": (None, (_POINTER,)),
    "hold": (_NUMBER, (_POINTER, ctypes.c_char_p, ctypes.c_int32)),
    "forward": (None, (_POINTER, _POINTER, _NUMBER)),
    "give_back": (None, (_POINTER, _NUMBER)),
    "take": (_NUMBER, (_POINTER, _NUMBER, _NUMBER)),
    "next": (None, (_POINTER, _POINTER)),
    "fill": (_NUMBER, (_POINTER, _POINTER)),
    "error": (_NUMBER, (_POINTER, _POINTER)),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the library cannot be used."""

    reason: str


@dataclass(frozen=True, slots=True)
class Counters:
    """Objects created and destroyed by all consumers of the process."""

    queues_made: int
    queues_gone: int
    messages_made: int
    messages_gone: int


class NativeLibrary:
    """The library's functions, by their names without the prefix."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        for name, (result, parameters) in _FUNCTIONS.items():
            function = getattr(loaded, f"shardlog_{name}")
            function.restype, function.argtypes = result, parameters
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a function of C
        raise AttributeError(name)

    def counted(self) -> Counters:
        """Return the counters."""
        numbers = (_NUMBER * 4)()
        self.counters(numbers)
        return Counters(*numbers)


def _machine(path: Path) -> bytes:
    """Return what a library says of the machine it is for; nothing if it is none."""
    header = b""
    with suppress(OSError), path.open("rb") as file:
        header = file.read(20)
    return header[4:6] + header[18:20] if header.startswith(b"\x7fELF") else b""


@cache
def load(path: Path = LIBRARY, client: str = cimpl.__file__) -> NativeLibrary | Refusal:
    """Return the library, ready to be a plugin of librdkafka, or why it cannot be used.

    Args:
        path: Where it lies.
        client: The extension module whose librdkafka it is to use.
    """
    if not path.exists():
        return Refusal(
            "the compiled library is missing; install shardlog again where there is a C compiler"
        )
    if ";" in str(path):
        return Refusal(f"librdkafka loads no plugin from a path with a semicolon: {path}")
    try:
        library = NativeLibrary(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        # Of another machine's the loader says that there is no such file.
        is_foreign = _machine(path) not in (b"", _machine(Path(client)))
        reason = "it is for another machine, install shardlog again" if is_foreign else error
        return Refusal(f"the compiled library cannot be loaded: {reason}")
    if library.abi() != _ABI:
        return Refusal("the compiled library is of another version; install shardlog again")
    # NOTE: what is looked up in an extension module is found in the libraries it stands on.
    missing = library.bind(client.encode())
    if missing is not None:
        return Refusal(f"this confluent_kafka exports no {missing.decode()} of librdkafka")
    return library
