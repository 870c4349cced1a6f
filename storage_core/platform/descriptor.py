"""A descriptor that ends with the object that has it.

An exception out of a signal handler may come wherever Python code would close one. So whoever
takes a descriptor that must not stay behind keeps it in an object that closes it in C, when it is
told to and at the latest when nobody holds it any more. An error of that close is not told, so
what is written through it is synced before.
"""

import os
import select
from pathlib import Path

# NOTE: nothing is polled. Of what Python has it is the one object that takes any descriptor and
# closes it without a word; an `io.FileIO` that nobody closed warns, and a warning is Python.
OwnedDescriptor = select.epoll


def opened(path: Path, flags: int) -> OwnedDescriptor:
    """Return what owns a file or directory that is opened; what is executed does not inherit it.

    A file that it makes may be written by its owner alone.
    """
    # IMPORTANT: one step of C; between two calls an interruption would leave the file open.
    (owner,) = map(OwnedDescriptor.fromfd, map(os.open, (path,), (flags,), (0o644,)))
    return owner
