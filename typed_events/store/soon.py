"""STOREs that nobody's thread waits for: begun together, each answered once its group is committed.

Who begins them is told by another thread that some have ended, and asks `answer_of` each from time
to time all the same: what waits too long for its turn is withdrawn by that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from typed_events.language.commands import Store
from typed_events.store.encoding import rows_of
from typed_events.store.storing import Outcome
from typed_events.store.submission import Row, Submission, Unit
from typed_events.store.writer import Writer, stored_too_long, waited_too_long
from typed_events.types.stored_types import StoredTypes

# So often as long as one that waits, one that is being stored is waited for.
_TIMES_STORED: Final = 2


@dataclass(slots=True, eq=False)
class SoonStored:
    """A STORE that was begun.

    Attributes:
        store: The command.
        submission: What was handed to the writer; None where it was refused before.
        error: Why it was not stored, once that is known.
    """

    store: Store
    submission: Submission | None = None
    error: BaseException | None = None

    def outcome(self) -> Outcome | None:
        """Return what became of it; None as long as it is under way."""
        if self.submission is None or self.error is not None:
            return Outcome(self.store, error=self.error)
        if not self.submission.done.is_set():
            return None
        unit = self.submission.units[0]
        if unit.error is not None:
            return Outcome(self.store, error=unit.error)
        return Outcome(self.store, unit.positions[0])

    def give_up(self, waited_s: float, writer: Writer) -> None:
        """End it where it waited too long."""
        wait_max_s = writer.wait_max_s
        if waited_s < wait_max_s or self.submission is None or self.submission.done.is_set():
            return
        if writer.withdraw(self.submission):
            self.error = waited_too_long(wait_max_s)
        elif waited_s >= wait_max_s * _TIMES_STORED and not self.submission.done.is_set():
            self.error = stored_too_long(wait_max_s)


def begin_stores(
    stores: Sequence[Store], types: StoredTypes, writer: Writer, ended: Callable[[], object]
) -> list[SoonStored]:
    """Begin STOREs, each by itself; nothing is raised.

    Args:
        stores: The commands.
        types: The types.
        writer: Who stores.
        ended: Called by the writer's thread for each that has ended; it must neither wait nor fail.
    """
    begun: list[SoonStored] = []
    submissions: list[Submission] = []
    for store, row in zip(stores, rows_of(stores, types), strict=True):
        if isinstance(row, Row):
            submission = Submission([Unit([row])], ended=ended)
            submissions.append(submission)
            begun.append(SoonStored(store, submission))
        else:
            begun.append(SoonStored(store, error=row))
    if submissions:
        try:
            writer.store_soon(submissions)
        except Exception as error:  # noqa: BLE001 - each is answered so, whatever it is
            for soon in begun:
                soon.error = soon.error or error
    return begun
