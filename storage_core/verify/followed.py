"""Verify as a reader: what is committed in a shard, without its writer's lock and with no change.

For places that may only be read. A reader's store may lack for a moment what a writer clears away
or writes beside it, which looks like damage; so what is not clean is looked at anew, by a new
instance of the store, and what is wrong again and again is told.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from storage_core.read.follow.follower import ShardFollower
from storage_core.verify.schema_checks import FingerprintOf
from storage_core.verify.verify import Progress, VerifyLimits, VerifyReport, ViewCheck

UNCHECKED_LOCK: Final = (
    "whether it can be opened for writing, and rows behind what is committed: it was read without "
    "its writer's lock"
)
_TRIES_MAX: Final = 3


def verify_followed(
    follow: Callable[[], ShardFollower],
    directory: Path,
    progress: Progress | None,
    fingerprint_of: FingerprintOf | None,
    limits: VerifyLimits = VerifyLimits(),  # noqa: B008 - it never changes
) -> VerifyReport:
    """Verify one shard that is read, not written.

    Args:
        follow: Makes a follower of the shard, which is closed again.
        directory: The shard's.
        progress: As for `verify_shard`.
        fingerprint_of: Says the fingerprint of a schema's text.
        limits: How much to hold in memory, and what to read.

    Raises:
        CorruptionError: No snapshot can be taken of it.
    """
    report = VerifyReport()
    for _ in range(_TRIES_MAX):
        with closing(follow()) as follower:
            report = _verified(follower, directory, progress, fingerprint_of, limits)
        if report.is_clean:
            break
    return replace(report, unchecked=(*report.unchecked, UNCHECKED_LOCK))


def _verified(
    follower: ShardFollower,
    directory: Path,
    progress: Progress | None,
    fingerprint_of: FingerprintOf | None,
    limits: VerifyLimits,
) -> VerifyReport:
    with closing(follower.snapshot()) as view:
        check = ViewCheck(view, view.committed, directory, fingerprint_of)
        return check.run(progress, limits, lambda _: follower.snapshot())
