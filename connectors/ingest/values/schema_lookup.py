"""The schemas that values name: asked of the registry once each, beside the worker's thread.

A schema is kept for as long as the worker runs; that there is none for seconds. A registry that
cannot be reached is asked again and again, and what the store knows of a schema stands in for its
answer meanwhile: a schema never changes. What one question has met, those that wait behind it are
told too, since few are asked at once and each may take all its attempts. Who waits for an answer,
and how long, schema_waits.py says.

Belongs to the worker's thread; those that ask read the store, and hand back what they found.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

from connectors.ingest.values.avro_values import WriterSchema
from connectors.ingest.values.framing import ID, SchemaName, name_text
from connectors.ingest.values.registered_schemas import schema_of_registry, schema_of_store
from connectors.registry import (
    RegistryClient,
    RegistryRefusedError,
    RegistryUnavailableError,
    SchemaKind,
)
from storage_core import Clock, InvalidRequestError, ShardlogError
from storage_core.avro import AvroSchema

_ASKERS: Final = 4
_RETRY_AFTER_S: Final = 1.0
_UNKNOWN_FOR_S: Final = 5.0
_GIVEN_UP_FOR_S: Final = 60.0
_UNKNOWN_MAX: Final = 10_000
_ID_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _SchemaAnswer:
    """What somebody knows of a schema."""

    registry_id: int
    schema: AvroSchema


@dataclass(slots=True)
class _Question:
    """A schema that is asked for."""

    future: "Future[_SchemaAnswer | str | ShardlogError] | None"
    next_ask_s: float = 0.0
    trouble: ShardlogError | None = None


# The text of a schema with this id of the registry's, as the store has it; called on any thread.
InStore = Callable[[int], str | None]


class SchemaLookup:
    """Answers by name, and the questions that are open."""

    def __init__(self, client: RegistryClient | None, in_store: InStore, clock: Clock) -> None:
        """Know nothing.

        Args:
            client: Who asks the registry, for schemas of its kind; None where no stream has any.
            in_store: What the store knows, where the registry says nothing.
            clock: Whose time it is.
        """
        self.kind: SchemaKind = "AVRO" if client is None else client.kind
        self._client = client
        self._in_store = in_store
        self._clock = clock
        self._askers = ThreadPoolExecutor(_ASKERS, "shardlog-schema")
        self._open: dict[SchemaName, _Question] = {}
        self._numbers: dict[tuple[int, str], WriterSchema] = {}
        self._answers: dict[SchemaName, WriterSchema | str] = {}
        self._unknown_until_s: dict[SchemaName, float] = {}
        self._held_names: Collection[SchemaName] = ()
        # When the registry answered last, whatever the answer was.
        self.heard_s = float("-inf")

    @property
    def answers(self) -> Mapping[SchemaName, WriterSchema | str]:
        """What is known: a schema, or why there is none."""
        return self._answers

    def unanswered(self, names: Iterable[SchemaName]) -> set[SchemaName]:
        """Return which of some names have no answer yet; nobody is asked for them."""
        self._forget_unknown(self._clock.monotonic_s())
        return {name for name in names if name not in self._answers}

    def ask(self, names: Iterable[SchemaName], *, is_anew: bool = False) -> None:
        """Ask for schemas, from here on; with `is_anew` a refusal from before counts no more."""
        for name in names:
            question = self._open.get(name)
            if name in self._answers:
                continue
            if question is None:
                self._open[name] = _Question(self._submit(name))
            elif is_anew and question.trouble is not None and not question.trouble.retriable:
                question.trouble = None
                question.future = question.future or self._submit(name)

    def await_answers(self, names: Collection[SchemaName], most_s: float) -> bool:
        """Wait for answers for a moment, not at all for what is in trouble already.

        Returns:
            Whether there is one of each.
        """
        questions = [self._open[name] for name in names if name in self._open]
        futures = [
            question.future
            for question in questions
            if question.future and question.trouble is None
        ]
        if futures and len(futures) == len(questions):
            wait(futures, most_s)
            self.collect()
        return all(name in self._answers for name in names)

    def keep(self, names: Collection[SchemaName]) -> None:
        """Forget no answer about these until the next call.

        Those who wait for several would else never have all answers of a slow registry together.
        """
        self._held_names = names

    def prolong(self, names: Iterable[SchemaName]) -> None:
        """Forget no answer about these before those who have waited for them can use it."""
        until_s = self._clock.monotonic_s() + _UNKNOWN_FOR_S
        unknown_until_s = self._unknown_until_s
        for name in names:
            if name in unknown_until_s:
                unknown_until_s[name] = max(unknown_until_s[name], until_s)

    def collect(self) -> None:
        """Take the answers that have come, and ask again where that is due."""
        now_s = self._clock.monotonic_s()
        silence: ShardlogError | None = None
        for name, question in list(self._open.items()):
            if question.future is None:
                if now_s >= question.next_ask_s:
                    question.future = self._submit(name)
            elif question.future.done():
                answer, question.future = question.future.result(), None
                if isinstance(answer, RegistryUnavailableError):
                    silence = answer
                else:
                    self.heard_s = now_s
                self._take(name, question, answer, now_s)
        if silence is not None:
            for name, question in self._open.items():
                if question.trouble is None:
                    message = f"{name_text(name)}: waits behind others; {silence.message}"
                    question.trouble = RegistryUnavailableError(message)

    def take_stored(self, names: Iterable[SchemaName]) -> set[SchemaName]:
        """Ask no longer for what the store knows; return those of some names that it does not."""
        lacking = set()
        for name in names:
            stored = _stored(self._in_store, name, self.kind) if name in self._open else None
            if stored is None:
                lacking.add(name)
            else:
                del self._open[name]
                self._answers[name] = self._numbered(stored)
        return lacking

    def trouble_of(self, names: Iterable[SchemaName]) -> ShardlogError | None:
        """Return why some schema cannot be asked for, None if nothing says so."""
        troubles = (self._open[name].trouble for name in names if name in self._open)
        return next(filter(None, troubles), None)

    def silence_of(self, names: Iterable[SchemaName], silent_s: float) -> RegistryUnavailableError:
        """Return the error over schemas where the registry has answered nothing for so long."""
        place = "" if self._client is None else f" {self._client.place}"
        first = min(map(name_text, names))
        message = f"schema registry{place}: {first}: no answer within {silent_s:.0f} s"
        return RegistryUnavailableError(message)

    def give_up(self, names: Iterable[SchemaName], why: str) -> None:
        """Take schemas for unknown for a while that nobody could be asked for."""
        now_s = self._clock.monotonic_s()
        for name in names:
            if self._open.pop(name, None) is not None:
                self._note_unknown(name, f"{name_text(name)}: {why}", now_s + _GIVEN_UP_FOR_S)

    def close(self) -> bool:
        """Ask no more; return whether somebody is still asking, for whom a process would wait."""
        self._askers.shutdown(wait=False, cancel_futures=True)
        return any(one.future is not None and not one.future.done() for one in self._open.values())

    def _submit(self, name: SchemaName) -> "Future[_SchemaAnswer | str | ShardlogError]":
        assert self._client is not None, "streams of schemas are not opened without a registry"
        return self._askers.submit(_ask, self._client, self._in_store, name)

    def _take(
        self,
        name: SchemaName,
        question: _Question,
        answer: _SchemaAnswer | str | ShardlogError,
        now_s: float,
    ) -> None:
        if isinstance(answer, _SchemaAnswer):
            del self._open[name]
            self._answers[name] = self._numbered(answer)
        elif isinstance(answer, ShardlogError):
            question.trouble, question.next_ask_s = answer, now_s + _RETRY_AFTER_S
        else:
            del self._open[name]
            self._note_unknown(name, answer, now_s + _UNKNOWN_FOR_S)

    def _numbered(self, answer: _SchemaAnswer) -> WriterSchema:
        key = answer.registry_id, answer.schema.text
        if key not in self._numbers:
            self._numbers[key] = WriterSchema(len(self._numbers), answer.registry_id, answer.schema)
        return self._numbers[key]

    def _note_unknown(self, name: SchemaName, why: str, until_s: float) -> None:
        self._answers[name] = why
        self._unknown_until_s[name] = until_s

    def _forget_unknown(self, now_s: float) -> None:
        """Forget that there are no such schemas once that was long ago; or of too many, some."""
        unknown_until_s = self._unknown_until_s
        over = max(len(unknown_until_s) - _UNKNOWN_MAX, 0)
        for index, (name, until_s) in enumerate(list(unknown_until_s.items())):
            if (index < over or now_s >= until_s) and name not in self._held_names:
                del unknown_until_s[name], self._answers[name]


def _ask(
    client: RegistryClient, in_store: InStore, name: SchemaName
) -> _SchemaAnswer | str | ShardlogError:
    """Return a schema, why there is none, or why nobody says; on a thread of its own."""
    answer = _registered(client, name)
    if isinstance(answer, _SchemaAnswer):
        return answer
    # Whatever the registry says: what was stored by a schema can be read by it.
    return _stored(in_store, name, client.kind) or answer


def _stored(in_store: InStore, name: SchemaName, kind: SchemaKind) -> _SchemaAnswer | None:
    """Return what the store knows of a schema."""
    registry_id = int.from_bytes(name[1:], "big")
    text = in_store(registry_id) if name[:1] == ID else None
    schema = None if text is None else schema_of_store(text, kind)
    return None if schema is None else _SchemaAnswer(registry_id, schema)


def _registered(client: RegistryClient, name: SchemaName) -> _SchemaAnswer | str | ShardlogError:
    """Return what the registry says of a schema, or why it says nothing."""
    try:
        if name[:1] == ID:
            number = int.from_bytes(name[1:], "big")
            if number > _ID_MAX:
                return f"{name_text(name)}: is more than any registry gives"
            registered = client.schema_by_id(number)
        else:
            registered = client.schema_by_guid(name_text(name).removeprefix("schema GUID "))
        return _SchemaAnswer(registered.id, schema_of_registry(registered, client.kind))
    except RegistryRefusedError as error:
        return error
    except InvalidRequestError as error:
        # There is none, or what the registry has under this name is none that values are read by.
        return error.message
    except ShardlogError as error:
        return error
