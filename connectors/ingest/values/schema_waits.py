"""Partitions whose next record names a schema that nobody has told yet.

Records before it are gathered; from it on the partition is paused, its neighbours and the other
partitions go on. Once the registry has answered, one way or the other, it goes on where its shard
stands. Where the registry says nothing for too long, the settings say what becomes of it.

What is left out never counts as passed: the partition is sought to the first record that was left
out, and behind that it has no position until it is fetched again. Belongs to the worker's thread.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.pending_batch import PendingBatch
from connectors.ingest.values.avro_values import FramedValues
from connectors.ingest.values.framing import Frames, SchemaName, name_text, read_frames
from connectors.ingest.values.json_values import framed_texts
from connectors.ingest.values.registered_schemas import kind_of_schemas
from connectors.ingest.values.schema_lookup import SchemaLookup
from connectors.kafka import Consumer, Fetched, Partition, Place
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.stream_settings import MappingRules
from storage_core import Clock, InvalidRequestError, ShardlogError

# A registry that is well answers within that, and a pause costs a partition far more.
_WAIT_HERE_S: Final = 0.2
# Schemas that a partition waits for at a time, the first that its records name: enough for any
# topic that is well, and not as many questions as there are records in one that is not.
_NAMES_MAX: Final = 256
_NAMES_TOLD: Final = 10
# How long a registry may say nothing at all, where a partition is to wait for less.
SILENT_S_MIN: Final = 2.0

Writers = Mapping[Partition, PartitionWriter]


@dataclass(frozen=True, slots=True)
class _Wait:
    """What a partition waits for, and since when."""

    names: frozenset[SchemaName]
    since_s: float


def stored_text(writers: Writers, registry_id: int) -> str | None:
    """Return the text that open shards have for an id of the registry; on any thread."""
    texts: set[str | None] = set()
    for writer in list(writers.values()):
        # One that is closed or damaged just now says nothing.
        with suppress(ShardlogError):
            texts.add(writer.schema_text(registry_id))
    texts.discard(None)
    # Of a registry that was made anew one shard may know the old and another the new: nobody says
    # which of them a value was written by.
    return texts.pop() if len(texts) == 1 else None


class SchemaWaits:
    """Takes what can be mapped out of what was fetched, and lets partitions go on again.

    It is of the values of one format: those whose schemas are of the lookup's kind.
    """

    def __init__(
        self,
        lookup: SchemaLookup,
        settings: SchemaSettings,
        consumer: Consumer,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Have none wait."""
        self._lookup = lookup
        self._settings = settings
        self._consumer = consumer
        self._clock = clock
        self._log = log
        self._waits: dict[Partition, _Wait] = {}
        # The first record that was left out of each, since the last call of `hold`.
        self._left_out: dict[Partition, int] = {}

    @property
    def partitions(self) -> Collection[Partition]:
        """Those that wait."""
        return self._waits.keys()

    def admit(
        self, fetched: Fetched, writers: Writers
    ) -> Iterator[tuple[Fetched, FramedValues | None]]:
        """Yield what can be mapped of values of the format, and all others as they are."""
        has_schemas = {
            partition
            for partition in fetched.runs
            if partition in writers and self._is_of_format(writers[partition].rules)
        }
        if not has_schemas:
            yield fetched, None
            return
        others = fetched.without(has_schemas)
        if others.runs:
            yield others, None
            fetched = fetched.only(has_schemas)
        yield self._framed(fetched)

    def _is_of_format(self, rules: MappingRules) -> bool:
        return rules.names_schemas and kind_of_schemas(rules.value_format) == self._lookup.kind

    def close(self) -> bool:
        """Ask for nothing more; return whether somebody is still asking, and cannot be ended."""
        return self._lookup.close()

    def hold(self) -> None:
        """Stop fetching what was left out of; before anybody asks for positions."""
        for partition, offset in self._left_out.items():
            self._consumer.pause([partition])
            self._consumer.seek(partition, Place(offset))
        self._left_out.clear()

    def go_on(self, writers: Writers, pending: PendingBatch) -> dict[Partition, ShardlogError]:
        """Fetch partitions again whose answers have come; while no round is in flight.

        Returns:
            Those that cannot go on, and why.
        """
        if not self._waits:
            return {}
        self._lookup.collect()
        now_s = self._clock.monotonic_s()
        stuck: dict[Partition, ShardlogError] = {}
        before = len(self._waits)
        for partition, waits in list(self._waits.items()):
            if partition not in writers:
                # Whoever opens its shard again fetches it too.
                del self._waits[partition]
                continue
            if pending.has(partition):
                # What comes before it is not durable yet, and so it has no place to go on from.
                continue
            lacking = self._lookup.unanswered(waits.names)
            if lacking:
                self._lookup.ask(lacking)
                error = self._given_up(partition, waits, lacking, now_s)
                if error is not None:
                    stuck[partition] = error
                    del self._waits[partition]
                continue
            refused = self._refused(partition, waits)
            del self._waits[partition]
            if refused is not None:
                stuck[partition] = refused
                continue
            self._lookup.prolong(waits.names)
            self._consumer.seek(partition, writers[partition].place)
            self._consumer.resume([partition])
        if len(self._waits) < before:
            self._keep_answers()
        return stuck

    def _keep_answers(self) -> None:
        names: set[SchemaName] = set()
        self._lookup.keep(names.union(*(one.names for one in self._waits.values())))

    def _framed(self, fetched: Fetched) -> tuple[Fetched, FramedValues]:
        frames = read_frames(fetched.values, fetched.headers)
        lacking = self._lacking(fetched, frames)
        answers = self._lookup.answers
        answered = {name: answers[name] for name in frames.names if name in answers}
        unknown = {name for name, answer in answered.items() if isinstance(answer, str)}
        stops = lacking | unknown if self._settings.unknown == "quarantine" else lacking
        if stops or self._waits:
            fetched = self._cut(fetched, frames, stops, lacking | unknown)
        if self._lookup.kind == "JSON":
            return fetched, framed_texts(fetched, frames, answered)
        return fetched, FramedValues(frames, answered)

    def _lacking(self, fetched: Fetched, frames: Frames) -> set[SchemaName]:
        """Return the schemas nobody has told yet, after a moment of asking for the first."""
        until_s = self._clock.monotonic_s() + _WAIT_HERE_S
        while lacking := self._lookup.unanswered(frames.names):
            first = _first_named(fetched.runs, frames, lacking)
            wanted = {
                name
                for partition, (_, names) in first.items()
                if partition not in self._waits
                for name in names
            }
            self._lookup.ask(wanted)
            left_s = until_s - self._clock.monotonic_s()
            if not wanted or left_s <= 0 or not self._lookup.await_answers(wanted, left_s):
                return self._lookup.unanswered(frames.names)
        return lacking

    def _cut(
        self,
        fetched: Fetched,
        frames: Frames,
        stops: Collection[SchemaName],
        wanted: Collection[SchemaName],
    ) -> Fetched:
        """Leave out records from the first on that cannot be mapped yet, of each partition.

        What is `wanted` is more than what stops them: that a schema is unknown would be forgotten
        before the others are told.
        """
        runs = dict(fetched.runs)
        now_s = self._clock.monotonic_s()
        stopping = _first_named(fetched.runs, frames, stops)
        behind = {at: (stopping[at][0], end) for at, (_, end) in runs.items() if at in stopping}
        waiting_for = _first_named(behind, frames, wanted)
        for partition, (start, _) in fetched.runs.items():
            if partition in self._waits:
                first = start
            elif partition in stopping:
                first, names = waiting_for[partition]
                self._waits[partition] = _Wait(frozenset(names), now_s)
                self._lookup.ask(names, is_anew=True)
                self._tell(partition, int(fetched.offsets[first]), names)
            else:
                continue
            self._left_out.setdefault(partition, int(fetched.offsets[first]))
            runs[partition] = (start, first)
        self._keep_answers()
        return replace(fetched, runs={at: run for at, run in runs.items() if run[0] < run[1]})

    def _tell(self, partition: Partition, offset: int, names: Sequence[SchemaName]) -> None:
        more = len(names) - _NAMES_TOLD
        self._log.info(
            "waiting for schemas",
            topic=partition.topic,
            shard=partition.number,
            offset=offset,
            schemas=[name_text(name) for name in names[:_NAMES_TOLD]],
            **({"more": more} if more > 0 else {}),
        )

    def _given_up(
        self, partition: Partition, waits: _Wait, lacking: Collection[SchemaName], now_s: float
    ) -> ShardlogError | None:
        """Return why a partition waits no longer; None while it may, or goes on without."""
        wait_s = self._settings.wait_s
        trouble = self._lookup.trouble_of(lacking)
        if trouble is None:
            # A question ends after all its attempts, which may take longer than anybody waits here.
            silent_s = now_s - max(waits.since_s, self._lookup.heard_s)
            if silent_s < max(wait_s, SILENT_S_MIN):
                return None
            trouble = self._lookup.silence_of(lacking, silent_s)
        elif trouble.retriable and now_s < waits.since_s + wait_s:
            return None
        if trouble.retriable:
            # What waited behind others had no turn; the store stands in for the registry here too.
            lacking = self._lookup.take_stored(lacking)
            if not lacking:
                return None
        if trouble.retriable and self._settings.unreachable == "dead-letter":
            self._log.warning(
                "schemas unavailable",
                topic=partition.topic,
                shard=partition.number,
                reason=str(trouble),
            )
            self._lookup.give_up(lacking, trouble.message)
            return None
        return trouble

    def _refused(self, partition: Partition, waits: _Wait) -> ShardlogError | None:
        """Return the error over a schema that nobody knows, where that stops its partition."""
        if self._settings.unknown == "dead-letter":
            return None
        answers = self._lookup.answers
        whys = (answers[name] for name in waits.names)
        why = next((each for each in whys if isinstance(each, str)), None)
        if why is None:
            return None
        message = (
            f'unknown schema: {why}; register it, or set schema.unknown = "dead-letter" to keep '
            "such records aside"
        )
        return InvalidRequestError(message, stream=partition.topic, shard=partition.number)


def _first_named(
    runs: Mapping[Partition, tuple[int, int]], frames: Frames, names: Collection[SchemaName]
) -> dict[Partition, tuple[int, list[SchemaName]]]:
    """Return where records of each partition name some schemas first, and the first so many."""
    # The last is that of values that name none, whose number is -1.
    chosen = np.array([*(name in names for name in frames.names), False])[frames.indices]
    first_rows: dict[Partition, tuple[int, list[SchemaName]]] = {}
    for partition, (start, end) in runs.items():
        rows = np.flatnonzero(chosen[start:end]) + start
        if len(rows):
            numbers, firsts = np.unique(frames.indices[rows], return_index=True)
            in_order = numbers[np.argsort(firsts)][:_NAMES_MAX].tolist()
            first_rows[partition] = int(rows[0]), [frames.names[number] for number in in_order]
    return first_rows
