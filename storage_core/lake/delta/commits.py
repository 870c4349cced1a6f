"""How every commit of ours is made: as one version or not at all, and with nothing behind it."""

from typing import Final

from deltalake import CommitProperties, PostCommitHookProperties

# Not as a later version, behind those of others.
ONCE: Final = CommitProperties(max_commit_retries=0)
# What delta-rs does behind a commit could fail behind one that was taken.
NOTHING_BEHIND: Final = PostCommitHookProperties(
    create_checkpoint=False, cleanup_expired_logs=False
)
