"""How much memory the rows of a file may take: a few bytes can claim to be many.

Who unpacks asks before it does, or takes some at a time and counts what came.
"""

import re
from typing import Final

FILE_BYTES_MAX: Final = 256 * 2**20
# What a list or an object of Python takes at most, and a comma stands for.
_OBJECT_BYTES: Final = 72
_OBJECTS_FEW: Final = 2**16
# Possessive, since what may be tried again takes memory for each byte.
_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"')


class TooLargeError(Exception):
    """What a file has would take more memory than it may."""


class Room:
    """The memory that is left for what comes out of a file. One thread at a time."""

    def __init__(self, bytes_max: int) -> None:
        """Begin with all of it."""
        self.bytes_left = bytes_max

    def refuse_beyond(self, count: int) -> None:
        """Refuse so many bytes more, unless there is room for them.

        Raises:
            TooLargeError: There is none.
        """
        if count > self.bytes_left:
            raise TooLargeError

    def take(self, count: int) -> None:
        """Use room for so many bytes.

        Raises:
            TooLargeError: There is none.
        """
        self.refuse_beyond(count)
        self.bytes_left -= count


def objects_in(text: bytes) -> int:
    """Return about how many bytes the lists and objects of a JSON text take, at most."""
    count = sum(map(text.count, (b",", b"[", b"{")))
    if count > _OBJECTS_FEW:
        # Those inside of texts are none.
        bare = _TEXT.sub(b"", text)
        count = sum(map(bare.count, (b",", b"[", b"{")))
    return count * _OBJECT_BYTES
