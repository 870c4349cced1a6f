"""How every commit of ours is made: as one version or not at all, and with nothing behind it.

Each has a random id, by which it is known again among others of its version.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from deltalake import CommitProperties, PostCommitHookProperties, Transaction

# What delta-rs does behind a commit could fail behind one that was taken.
NOTHING_BEHIND: Final = PostCommitHookProperties(
    create_checkpoint=False, cleanup_expired_logs=False
)
_COMMIT_ID: Final = "shardlogCommit"


def new_commit_id() -> str:
    """Return an id that no other commit has."""
    return secrets.token_hex(8)


def once(
    commit_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    transactions: Sequence[Transaction] = (),
) -> CommitProperties:
    """Return what makes a commit one version, and not a later one, behind those of others.

    Args:
        commit_id: Its id; if None a new one.
        metadata: What else it says of itself.
        transactions: The applications' versions that come with it.
    """
    return CommitProperties(
        custom_metadata={**(metadata or {}), _COMMIT_ID: commit_id or new_commit_id()},
        max_commit_retries=0,
        app_transactions=list(transactions),
    )


def commit_id_of(commit: Mapping[str, Any]) -> str | None:
    """Return the id of a commit by what it says of itself; None of another program's."""
    commit_id = commit.get(_COMMIT_ID)
    return commit_id if isinstance(commit_id, str) else None


def commit_id_in(log_file: bytes) -> str | None:
    """Return the id of the commit that a file of a log is.

    None of another program's, and of a damaged one: whoever loads the table says what is wrong.
    """
    with suppress(ValueError, RecursionError):
        for line in log_file.splitlines():
            action = json.loads(line)
            if isinstance(action, dict) and isinstance(action.get("commitInfo"), dict):
                return commit_id_of(action["commitInfo"])
    return None


def is_same_commit(commit: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two commits of one version are the same."""
    commit_id = commit_id_of(commit)
    return commit == other if commit_id is None else commit_id == commit_id_of(other)


def naming(commit_id: str) -> Mapping[str, str]:
    """Return a commit of which the id alone is known."""
    return {_COMMIT_ID: commit_id}
