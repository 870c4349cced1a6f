"""Whether a worker can be: files enough, a root that can be had, streams that are of topics.

It is asked before anything is consumed.

A soft limit on files is what a shell hands on; a worker of many partitions needs more, and asks
for all that the hard limit allows. What does not fit even then is refused.

A right to write says little: a file system that is read-only, or one that is made by the kernel,
has directories which nobody can make anything in. So it is tried, with a directory that is gone
again at once.
"""

import errno
import resource
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from storage_core import InvalidRequestError, describe_stream, files_needed

# Connections of the clients to a dozen brokers, their pipes, the log, libraries.
FILES_BESIDE_SHARDS: Final = 128
# What may pass by itself; whoever writes is told of it then.
_MAY_PASS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


def raise_file_limit() -> int:
    """Let this process open as many files as the hard limit allows; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def hard_file_limit() -> int:
    """Return how many files this process may open once it asked for all."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def files_missing(partitions: int, limit: Callable[[], int] = hard_file_limit) -> str | None:
    """Say what a worker of so many partitions lacks, None if it lacks nothing."""
    needed, allowed = files_needed(partitions) + FILES_BESIDE_SHARDS, limit()
    if allowed == resource.RLIM_INFINITY or needed <= allowed:
        return None
    return (
        f"{partitions} partitions need {needed} open files; this process may have {allowed}: raise "
        "the hard limit (ulimit -Hn, LimitNOFILE), or share the partitions out to more workers"
    )


def check_files(partitions: int, limit: Callable[[], int] = hard_file_limit) -> None:
    """Refuse partitions for which this process may not open enough files.

    Raises:
        InvalidRequestError: The message has the number that is needed.
    """
    missing = files_missing(partitions, limit)
    if missing is not None:
        raise InvalidRequestError(missing)


def check_streams(root: Path, topics: Iterable[str]) -> None:
    """Refuse topics whose stream is there already and has rows of another source.

    Raises:
        InvalidRequestError: There is such a stream, as that of an event type.
    """
    for topic in topics:
        try:
            origin = describe_stream(root, topic).origin
        except InvalidRequestError:
            # It is made with the first partition.
            continue
        if origin is None:
            raise not_of_a_topic(topic)


def not_of_a_topic(topic: str) -> InvalidRequestError:
    """Return the error about a topic's stream that others write."""
    message = (
        "a stream of this name is there that was not made from a topic; a topic of another name, "
        "or another root, keeps their rows apart"
    )
    return InvalidRequestError(message, stream=topic)


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
