"""Orders and answers: values that one process sends to another, a line each."""

import pickle
from base64 import b64decode, b64encode
from typing import Any


def encode_message(message: object) -> bytes:
    """Return the line in which a message goes from one process to the other."""
    return b64encode(pickle.dumps(message)) + b"\n"


def decode_message(line: bytes) -> Any:  # noqa: ANN401 - what the other process sent
    """Return what `encode_message` was given."""
    return pickle.loads(b64decode(line))  # noqa: S301 - of a pipe that only our own processes have
