"""The memory that the rows of a file may take, since few bytes can claim to be many.

A reader checks before it decompresses, or decompresses some at a time and counts.
"""

import re
from typing import Final

FILE_BYTES_MAX: Final = 256 * 2**20
# The most memory of a Python list or object; a comma counts as one.
_OBJECT_BYTES: Final = 72
_OBJECTS_FEW: Final = 2**16
# Possessive, since backtracking takes memory for each byte.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"')


class TooLargeError(Exception):
    """A file would take more memory than it may."""


class MemoryBudget:
    """The memory left for the contents of a file. One thread at a time."""

    def __init__(self, bytes_max: int) -> None:
        """Start with all of it."""
        self.bytes_left = bytes_max

    def check(self, size: int) -> None:
        """Refuse bytes that exceed the budget.

        Raises:
            TooLargeError: They do.
        """
        if size > self.bytes_left:
            raise TooLargeError

    def take(self, size: int) -> None:
        """Take bytes from the budget.

        Raises:
            TooLargeError: They exceed it.
        """
        self.check(size)
        self.bytes_left -= size


def objects_in(text: bytes) -> int:
    """Return about the most memory that lists and objects of a JSON text take."""
    size = sum(map(text.count, (b",", b"[", b"{")))
    if size > _OBJECTS_FEW:
        # Not those inside of strings.
        without_strings = _STRING.sub(b"", text)
        size = sum(map(without_strings.count, (b",", b"[", b"{")))
    return size * _OBJECT_BYTES
