"""Mending: a part whose file is damaged or gone is made again of the log, which has its rows."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.engine.key_value import Batch
from storage_core.errors import CorruptionError, LostRangeError
from storage_core.format.part_entry import PartEntry, part_file_name
from storage_core.format.record import State
from storage_core.format.shard_state import KEY_GENERATION, ShardState, encode_int, generation_after
from storage_core.parts.part_list import replace_parts
from storage_core.parts.part_rows import RAW, numbered, numbers_of, part_columns, part_rows
from storage_core.parts.typed_columns import Writer
from storage_core.platform.durable_file import sync_directory
from storage_core.read.answer import scan_view
from storage_core.read.cold.parts import part_path, parts_directory, parts_in
from storage_core.read.request import ReadRequest
from storage_core.read.schema_columns import schemas_in
from storage_core.read.view import ShardView
from storage_core.retention.exclusive import alone
from storage_core.tiering.making import making_errors, written_part
from storage_core.tiering.replaced import clear, cleared_on_failure, let_go
from storage_core.tiering.seal_report import Mended
from storage_core.tiering.visible_files import prepared_directory, show_parts
from storage_core.verify.part_checks import difference
from storage_core.write.shard import Shard

_NS_A_MS: Final = 1_000_000
_untyped: Any = pa


def mend_parts(shard: Shard) -> tuple[Mended, ...]:
    """Make the parts again whose files are not as they were published; durable on return.

    1. Look: compare the file of each part with the digest that the catalogue has of it.
    2. Make: of each that differs a new file, with a number of its own, of the rows that the log
       has of its kind between its addresses; the file is synced and proven as a seal's is.
    3. Publish: the new entry in the place of the old one, in one WriteBatch; sync; write the
       marker with a new generation, so that readers in other processes see the same. A part of
       which every row has expired only goes.
    4. Show: the new file gets the name that other programs see in the place of the old one
       (visible_files.py).
    5. Free: what is left of the old file goes as a compaction's do.

    One part after the other. A crash before 3 leaves the old entry and a file that the next sweep
    removes, one behind it the old file, which it removes too.

    Raises:
        LostRangeError: The log has lost rows of one too, or they were trimmed; it stays as it is,
            its trimmed blocks are lost from now on, and those before it are mended.
        UnavailableError: Something else held the shard for too long, or the disk refuses.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return alone(shard, lambda: tuple(_mended(shard)))


def _mended(shard: Shard) -> Iterator[Mended]:
    shard.guard.refuse_if_unusable()
    directory = parts_directory(shard.context.directory)
    view = shard.views.committed()
    try:
        entries = parts_in(view).entries
    finally:
        view.close()
    for part in entries:
        what = difference(part_path(directory, part), part)  # 1
        if not what:
            continue
        with making_errors(directory):
            prepared_directory(shard)
            try:
                made = _made_again(shard, part)  # 2
            except LostRangeError:
                _note_trimmed(shard, part)
                raise
            shard.take_away(partial(_replaced, part, made))  # 3
            show_parts(shard, [part], [] if made is None else [made])  # 4
            let_go(shard, [directory / part.file_name])  # 5
        yield Mended(part, what, made)


def _note_trimmed(shard: Shard, part: PartEntry) -> None:
    """Record the trimmed blocks that only a damaged part could make again as lost.

    No read does: the file may come back. Whoever mends wants to go on without it.
    """
    view = shard.views.committed()
    try:
        end = min(part.last + 1, view.state.trimmed)
        for zone in view.zones(max(part.first, view.state.start), end):
            with suppress(CorruptionError):
                view.block(zone)
    finally:
        view.close()
    shard.note_lost(view.gone_with_parts, with_parts=True)


def _made_again(shard: Shard, part: PartEntry) -> PartEntry | None:
    """Return a part's successor; None where all its rows have expired.

    Raises:
        LostRangeError: The log has lost some of its rows.
    """
    directory = parts_directory(shard.context.directory)
    view = shard.views.committed()
    try:
        schemas = list(schemas_in(view))
        rows = list(_rows_of(view, part))
        if not rows:
            return None
        writers = [Writer(AvroSchema.stored(one.text), one.registry_id) for one in schemas]
        (made,) = part_rows(rows, has_keys=view.meta.has_keys, writers=writers)
        now_ms = shard.context.environment.clock.now_ns() // _NS_A_MS
        number = view.state.parts
        clear(shard, directory / part_file_name(number))
        with cleared_on_failure(shard, view):
            found = written_part(made, number, directory, now_ms)
            sync_directory(directory)
    finally:
        view.close()
    return replace(found, level=part.level)


def _rows_of(view: ShardView, part: PartEntry) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the log has of a part, by address.

    Raises:
        LostRangeError: Some of them may be lost, or were trimmed.
    """
    schemas = list(schemas_in(view))
    known = numbers_of(schemas)
    kinds = [AvroSchema.stored(one.text).full_name for one in schemas]
    # The last is that of rows without a schema.
    is_kind = np.array([kind == part.kind for kind in (*kinds, RAW)])
    request = ReadRequest(
        view.shard,
        start_address=max(part.first, view.state.start),
        end_address=max(part.last + 1, view.state.start),
        columns=part_columns(has_keys=view.meta.has_keys),
        order="replay",
        expired_until=view.state.generation,
    )
    try:
        for stored, _ in scan_view(view, request):
            batch = numbered(stored, known)
            numbers = batch.column("schema").fill_null(-1).to_numpy()
            is_flagged = batch.column("state").to_numpy() != State.NORMAL
            mine = is_kind[numbers] & (is_flagged == part.is_flagged)
            if mine.any():
                yield batch.filter(_untyped.array(mine))
    except CorruptionError as error:
        if part.first >= view.state.trimmed and not isinstance(error, LostRangeError):
            raise
        message = f"{part.file_name} cannot be made again: {error.message}"
        raise LostRangeError(
            message,
            stream=view.stream,
            shard=view.shard,
            path=error.path,
            start=error.start,
            end=error.end,
        ) from error


def _replaced(
    old: PartEntry, new: PartEntry | None, state: ShardState, _window_now: object
) -> tuple[Batch, ShardState]:
    batch = Batch()
    after = replace_parts(batch, state, [old], [] if new is None else [new])
    after = replace(after, generation=generation_after(state.generation))
    batch.put(KEY_GENERATION, encode_int(after.generation))
    return batch, after
