"""A descriptor that ends with the object that has it.

An exception out of a signal handler may come wherever Python code would close one. So whoever
takes a descriptor that must not stay behind keeps it in an object that closes it in C, when it is
told to and at the latest when nobody holds it any more.
"""

import os
import select
from pathlib import Path

# NOTE: no poll, but the one object that takes any descriptor and closes it without a word.
OwnedDescriptor = select.epoll


def owned(descriptor: int) -> OwnedDescriptor:
    """Return what owns a descriptor from now on."""
    return OwnedDescriptor.fromfd(descriptor)


def opened(path: Path, flags: int) -> OwnedDescriptor:
    """Return what owns a file that is opened."""
    # IMPORTANT: one step of C; between two calls an interruption would leave the file open.
    (owner,) = map(OwnedDescriptor.fromfd, map(os.open, (path,), (flags,)))
    return owner
