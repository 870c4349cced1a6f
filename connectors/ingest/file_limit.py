"""How many files a worker may open: as many as the system lets it, and whether they suffice.

A soft limit is what a shell hands on; a worker of many partitions needs more, and asks for all
that the hard limit allows. What does not fit even then is refused before anything is consumed.
"""

import resource
from collections.abc import Callable
from typing import Final

from storage_core import InvalidRequestError, files_needed

# Connections of the clients to a dozen brokers, their pipes, the log, libraries.
FILES_BESIDE_SHARDS: Final = 128


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
    needed, there = files_needed(partitions) + FILES_BESIDE_SHARDS, limit()
    if there == resource.RLIM_INFINITY or needed <= there:
        return None
    return (
        f"{partitions} partitions need {needed} open files; this process may have {there}: raise "
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
