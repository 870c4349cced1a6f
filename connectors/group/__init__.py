"""What an operator does to the partitions of a root: pause, resume, retry.

Commands and workers meet in small files under the root, which is the truth; Kafka's group offsets
are a copy of it.

    quarantine_notes   what workers have quarantined
    pauses             what is paused, until it is resumed
    rewinds            what is fetched again, since its store lacks it
    retry_requests     which quarantined partitions are to be tried again now
    operations         pause and resume, as commands and programs call them
    retrying           retry, as commands and programs call it
    pause_of_command   pauses that end with the command that made them
"""

from typing import TYPE_CHECKING

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from connectors.group.operations import pause, resume
    from connectors.group.owner_waits import Outcome
    from connectors.group.pauses import Pause, Pauses
    from connectors.group.quarantine_notes import WHOLE_TOPIC, QuarantineNote, QuarantineNotes
    from connectors.group.retry_requests import RetryRequests
    from connectors.group.retrying import retry
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "operations": ("pause", "resume"),
            "owner_waits": ("Outcome",),
            "pauses": ("Pause", "Pauses"),
            "quarantine_notes": ("WHOLE_TOPIC", "QuarantineNote", "QuarantineNotes"),
            "retry_requests": ("RetryRequests",),
            "retrying": ("retry",),
        },
    )

__all__ = [
    "WHOLE_TOPIC",
    "Outcome",
    "Pause",
    "Pauses",
    "QuarantineNote",
    "QuarantineNotes",
    "RetryRequests",
    "pause",
    "resume",
    "retry",
]
