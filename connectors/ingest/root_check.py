"""Whether a worker's root can be had, asked of the disk before anything is consumed.

A right to write says little: a file system that is read-only, or one that is made by the kernel,
has directories which nobody can make anything in. So it is tried, with a directory that is gone
again at once.
"""

import errno
import tempfile
from pathlib import Path
from typing import Final

from storage_core import InvalidRequestError

# What may pass by itself; whoever writes is told of it then.
_MAY_PASS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


def check_writable(root: Path) -> None:
    """Refuse a root that this process may not write to, or can never make.

    Raises:
        InvalidRequestError: It may not, or the path is no directory.
    """
    place = root
    try:
        while not place.exists() and place != place.parent:
            if place.is_symlink():
                message = (
                    "is a link to a place that is not there: mount or make it, or set another root"
                )
                raise InvalidRequestError(message, path=place)
            place = place.parent
    except OSError as error:
        raise _refused(root, error) from error
    if not place.is_dir():
        message = "is not a directory; set another root"
        raise InvalidRequestError(message, path=place)
    try:
        with tempfile.TemporaryDirectory(prefix="~probe-", dir=place):
            pass
    except OSError as error:
        if error.errno not in _MAY_PASS:
            raise _refused(root, error, place) from error


def _refused(root: Path, error: OSError, place: Path | None = None) -> InvalidRequestError:
    where = "" if place in (None, root) else f", nothing can be made in {place}"
    why = (error.strerror or str(error)).lower()
    message = (
        f"the root cannot be used{where}: {why}; set another root, or give the worker this one"
    )
    return InvalidRequestError(message, path=root)
