"""What the exit code of the `shardlog` command means.

0    done
1    a bug: an unexpected error, with its traceback
2    wrong usage, option or setting, no such root or stream, missing permission, a system limit,
     a package that is not installed: fix it and start again
3    something cannot be reached or another process holds it: try again later
4    foreign data: it belongs to another topic, cluster or store; do not retry
5    damage or loss: stop and repair; the message names shard, file and range
6    a write to disk or to the output failed: free the disk, start again; acknowledged rows are
     safe
7    the Kafka client failed for good, as when another has the same group.instance.id
8    a schema is incompatible with the versions before it; nothing was registered
9    what a command expects does not hold, as EXPECT says it; nothing was stored
130  interrupted
143  ended at once, by a second signal or by SIGTERM; acknowledged rows are safe
"""

from typing import Final

from connectors.output_formats.whole_file import OutputFailedError
from connectors.registry import IncompatibleSchemaError
from storage_core import (
    ClientFailedError,
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)

EXIT_UNEXPECTED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNAVAILABLE: Final = 3
EXIT_FOREIGN: Final = 4
EXIT_DAMAGE: Final = 5
EXIT_WRITE_FAILED: Final = 6
EXIT_CLIENT_FAILED: Final = 7
EXIT_INCOMPATIBLE: Final = 8
EXIT_CONFLICT: Final = 9
EXIT_INTERRUPTED: Final = 130
EXIT_AT_ONCE: Final = 143

_BY_KIND: Final[tuple[tuple[type[ShardlogError], int], ...]] = (
    # Before the kind it is one of.
    (IncompatibleSchemaError, EXIT_INCOMPATIBLE),
    (InvalidRequestError, EXIT_USAGE),
    (UnavailableError, EXIT_UNAVAILABLE),
    (ForeignDataError, EXIT_FOREIGN),
    (CorruptionError, EXIT_DAMAGE),
    (ShardPoisonedError, EXIT_WRITE_FAILED),
    (OutputFailedError, EXIT_WRITE_FAILED),
    (ClientFailedError, EXIT_CLIENT_FAILED),
)

# By the kinds of quarantine.py, which take long to load: the exit codes of their errors.
_BY_FAULT: Final = {
    "refused": EXIT_USAGE,
    "unavailable": EXIT_UNAVAILABLE,
    "foreign": EXIT_FOREIGN,
    "out_of_range": EXIT_DAMAGE,
    "damage": EXIT_DAMAGE,
    "write_failed": EXIT_WRITE_FAILED,
}


def exit_code_of_fault(kind: str) -> int:
    """Return the exit code of a kind of fault, as `on_fault` names it."""
    return _BY_FAULT.get(kind, EXIT_UNEXPECTED)


def exit_code_for(error: ShardlogError) -> int:
    """Return the exit code of an error."""
    for kind, code in _BY_KIND:
        if isinstance(error, kind):
            return code
    return EXIT_UNEXPECTED


def one_line(error: ShardlogError) -> str:
    """Return the first line of an error's message."""
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return first
