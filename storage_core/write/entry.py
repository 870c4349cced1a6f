"""What is handed to the commit path, and what becomes of it.

An `Entry` is one batch's rows with all that must become durable with them. The `checked_`
functions are the door for what callers bring beside their rows; they change nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import add, attrgetter
from typing import Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa

from storage_core.catalog.options import PAYLOAD_BYTES_MAX
from storage_core.engine.key_value import Batch
from storage_core.errors import InvalidRequestError
from storage_core.format.keys import ADDRESS_MAX, FAMILY_DEFAULT, attachment_key
from storage_core.format.record import Rows, State
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import encode_source
from storage_core.ids.heads.grouping import Int64s, States
from storage_core.ids.heads.table import Heads

STATE: Final = "state"
Attachment = tuple[str, bytes, bytes]
# What nearly all are of, exactly.
_ATTACHED: Final = ({str}, {bytes}, {bytes})
DeadLetter = tuple[int, bytes]

# What became of a dead letter that is cleared.
DeadLetterOutcome = Literal["forwarded", "dropped", "retried", "discarded"]


@dataclass(frozen=True, slots=True)
class AppendReport:
    """What became of a batch's rows.

    `appended` rows are in the log, `late`, `absorbed` and `ahead` among them; `duplicates`
    were there before, dead letters among them; `expired` rows lie below the floor (in the log
    only if they brought their addresses); `dead_letters` are kept beside the log.
    """

    appended: int = 0
    duplicates: int = 0
    late: int = 0
    absorbed: int = 0
    ahead: int = 0
    expired: int = 0
    dead_letters: int = 0

    def plus(self, other: "AppendReport") -> "AppendReport":
        """Return the sums."""
        return AppendReport(*map(add, _counts(self), _counts(other)))


# NOTE: `astuple` copies each value deeply: 40 µs for two reports, a partition and round.
_counts: Final = attrgetter(*(each.name for each in fields(AppendReport)))


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows' source stands: as the caller gave it, and as it is stored."""

    fields: dict[str, Any]
    data: bytes

    @property
    def next(self) -> int:
        """The address up to which the source moves the tail."""
        return int(self.fields.get("next", 0))


@dataclass(frozen=True, slots=True)
class Entry:
    """What is handed to the commit path to become durable together.

    `source` says where the rows' source stands; its `next`, if it has one, moves the tail
    past addresses that carry no rows. `passes_to` moves it too, and the addresses from the
    tail to there are kept as passed over. `beside` is what the log itself writes with them;
    `cleared` are the addresses of dead letters that go, and `outcome`
    says what became of them. `attachments_cleared` is a range of keys whose attachments go before
    those that are brought. `states` are those that rows of a copy had where they come from.
    """

    rows: Rows | None
    addresses: Int64s | None = None
    source: Source | None = None
    attachments: tuple[Attachment, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    passes_to: int = 0
    duplicates: int = 0
    is_from_builder: bool = False
    beside: Batch | None = None
    cleared: tuple[int, ...] = ()
    outcome: DeadLetterOutcome = "forwarded"
    states: States | None = None
    attachments_cleared: tuple[bytes, bytes] | None = None

    def first_address(self, otherwise: int) -> int:
        """Return the least address that rows or dead letters bring along."""
        first = otherwise
        if self.addresses is not None and len(self.addresses):
            first = int(self.addresses[0])
        return min(first, self.dead_letters[0][0]) if self.dead_letters else first


@dataclass(frozen=True, slots=True)
class JudgedEntry:
    """An entry whose rows have addresses and states (None: all normal), and heads behind them.

    `new_keys` and `new_schemas` are those that the shard's dictionaries did not have, with their
    numbers.
    """

    entry: Entry
    rows: Rows
    addresses: Int64s
    states: States | None
    heads: Heads | None
    report: AppendReport
    new_keys: Mapping[bytes, int] = field(default_factory=dict)
    new_schemas: Mapping[SchemaEntry, int] = field(default_factory=dict)


def checked_attachments(attachments: object) -> tuple[Attachment, ...]:
    """Return a caller's attachments under keys of their own, or refuse them."""
    if not isinstance(attachments, Iterable):
        message = f"attachments are (family, key, value), not {attachments!r}"
        raise InvalidRequestError(message)
    attachments = tuple(attachments)
    if {*map(type, attachments)} == {tuple} and {*map(len, attachments)} == {len(_ATTACHED)}:
        # As most are, and many at once.
        families, keys, values = zip(*attachments, strict=True)
        kinds = tuple({*map(type, column)} for column in (families, keys, values))
        if kinds == _ATTACHED and {*families} == {FAMILY_DEFAULT}:
            return tuple(zip(families, map(attachment_key, keys), values, strict=True))
    checked = []
    for attachment in attachments:
        match attachment:
            case (str() as family, bytes() as key, bytes() as value) if family == FAMILY_DEFAULT:
                checked.append((family, attachment_key(key), value))
            case _:
                message = f"an attachment is ('default', key, value) in bytes, not {attachment!r}"
                raise InvalidRequestError(message)
    return tuple(checked)


def checked_attachment_keys(keys: object) -> list[bytes]:
    """Return where attachments of a caller's keys lie, or refuse what is none."""
    if not isinstance(keys, Iterable) or isinstance(keys, bytes):
        message = f"attachments are asked for by a list of keys in bytes, not {keys!r}"
        raise InvalidRequestError(message)
    checked = []
    for key in keys:
        if not isinstance(key, bytes):
            message = f"the key of an attachment is bytes, not {key!r}"
            raise InvalidRequestError(message)
        checked.append(attachment_key(key))
    return checked


def without_states(batch: Any, *, is_placed: bool) -> tuple[Any, States | None]:  # noqa: ANN401 - what a caller gives
    """Return a caller's batch without its column of states, and what that holds.

    Raises:
        InvalidRequestError: It holds what is no state, or rows of no copy: they have no place.
    """
    if not isinstance(batch, pa.RecordBatch | pa.Table) or STATE not in batch.schema.names:
        return batch, None
    column: Any = batch.column(STATE)
    if not is_placed:
        message = f"column {STATE!r} is of a copy's rows: give their shard and addresses too"
        raise InvalidRequestError(message)
    others: Any = [name for name in batch.schema.names if name != STATE]
    if column.type != pa.uint8() or column.null_count:
        message = f"column {STATE!r} is uint8 without nulls, not {column.type}"
        raise InvalidRequestError(message)
    states: States = np.array(column.to_numpy(), np.uint8)
    if len(states) and int(states.max()) > State.EXPIRED:
        message = f"column {STATE!r} has {int(states.max())}; states are 0 to {State.EXPIRED}"
        raise InvalidRequestError(message)
    return batch.select(others), states


def no_address_left(stream: str, shard: int) -> InvalidRequestError:
    """Return the error that tells of rows behind the last address that a shard may have."""
    message = (
        f"the shard has no address left for them: {ADDRESS_MAX - 1} is the last; append to "
        "another stream"
    )
    return InvalidRequestError(message, stream=stream, shard=shard)


def checked_source(source: object) -> Source | None:
    """Return where a caller's source stands, or refuse it."""
    if source is None:
        return None
    fields: dict[str, Any] = source if isinstance(source, dict) else {"next": None}
    next_address = fields.get("next", 0)
    if type(next_address) is not int or not 0 <= next_address <= ADDRESS_MAX:
        message = f"source is a dict whose `next`, if given, is an address; not {source!r}"
        raise InvalidRequestError(message)
    try:
        return Source(dict(fields), encode_source(fields))
    except (TypeError, ValueError) as error:
        message = f"source does not fit JSON: {error}"
        raise InvalidRequestError(message) from error


def checked_dead_letter_addresses(addresses: object, committed: int) -> list[int]:
    """Return the addresses of dead letters that a caller has done with, each once, or refuse them.

    IMPORTANT: none that is not committed; a crash would bring such a dead letter back, or leave a
    hole in its place.
    """
    if not isinstance(addresses, Iterable):
        message = f"dead letters are cleared by their addresses, not {addresses!r}"
        raise InvalidRequestError(message)
    checked = set()
    for address in addresses:
        if type(address) is not int or not 0 <= address < committed:
            message = f"no dead letter to clear at {address!r}: committed is {committed}"
            raise InvalidRequestError(message)
        checked.add(address)
    return sorted(checked)


def check_outcome(outcome: object) -> None:
    """Refuse what is no outcome of a dead letter.

    Raises:
        InvalidRequestError: It is none.
    """
    outcomes = get_args(DeadLetterOutcome)
    if outcome not in outcomes:
        message = f"outcome {outcome!r} is not one of {', '.join(outcomes)}"
        raise InvalidRequestError(message)


def checked_dead_letters(
    dead_letters: object, rows: Rows, addresses: Int64s | None
) -> tuple[DeadLetter, ...]:
    """Return a caller's dead letters by address, or refuse them."""
    if dead_letters is None:
        return ()
    if not isinstance(dead_letters, Mapping):
        message = f"dead letters are addresses with raw bytes, not {dead_letters!r}"
        raise InvalidRequestError(message)
    if not dead_letters:
        return ()
    for address, raw in dead_letters.items():
        if type(address) is not int or not 0 <= address < ADDRESS_MAX:
            message = f"a dead letter lies from address 0 to {ADDRESS_MAX - 1}, not at {address!r}"
            raise InvalidRequestError(message)
        if not isinstance(raw, bytes) or len(raw) > PAYLOAD_BYTES_MAX:
            message = f"the dead letter at {address} is not bytes, {PAYLOAD_BYTES_MAX} at most"
            raise InvalidRequestError(message)
    if len(rows) and addresses is None:
        message = "dead letters have addresses, so the rows beside them need theirs"
        raise InvalidRequestError(message)
    if addresses is not None:
        both = np.isin(np.fromiter(dead_letters, np.int64, len(dead_letters)), addresses)
        if both.any():
            repeated = list(dead_letters)[int(both.argmax())]
            message = f"address {repeated} is given to a row and to a dead letter"
            raise InvalidRequestError(message)
    return tuple(sorted(dead_letters.items()))
