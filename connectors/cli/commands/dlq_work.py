"""`shardlog dlq export | retry | discard`: work through the dead letters that shards keep."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from connectors.cli.input.dead_letter_filters import selection_of
from connectors.cli.output.formatting import counted
from connectors.cli.output.printing import (
    print_bytes,
    print_json,
    print_line,
    print_lines,
    print_table,
)
from connectors.cli.output.progress_bar import progress_bar
from connectors.cli.parsing.dead_letter_filters import DeadLetterFilters
from connectors.group.pause_of_command import paused_for_command
from connectors.ingest.dead_letters.discard import DiscardReport
from connectors.ingest.dead_letters.discard import discard as discard_dead_letters
from connectors.ingest.dead_letters.opening import partitions_with_dead_letters
from connectors.ingest.dead_letters.retry import RetryReport, RetrySettings
from connectors.ingest.dead_letters.retry import retry as retry_dead_letters
from connectors.ingest.dead_letters.selection import Selection, StoredDeadLetter, waiting_in
from connectors.output_formats.whole_file import STANDARD_OUTPUT, WholeFile
from connectors.settings.loading import load_options
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.stream_settings import StreamSettings
from storage_core import InvalidRequestError, StreamReader

_NOUN: Final = "dead letter"
_NONE_CHOSEN: Final = "no dead letters are chosen"
_DISCARD_COLUMNS: Final = (
    "partition",
    "dead letters",
    "first offset",
    "last offset",
    "reasons",
)


def export(
    *,
    root: Path,
    stream: str,
    to: Path,
    overwrite: bool,
    filters: DeadLetterFilters,
) -> None:
    """Write dead letters to a file, one JSON object a line."""
    selection = selection_of(filters)
    if to == STANDARD_OUTPUT:
        if overwrite:
            message = "--overwrite goes with a file of --to only"
            raise InvalidRequestError(message)
        _export(root, stream, selection, print_bytes)
        return
    with WholeFile(to, overwrite=overwrite) as file:
        count = _export(root, stream, selection, file.write)
    print_line(f"{counted(count, _NOUN)} exported to {to}")


def _export(root: Path, stream: str, selection: Selection, write: Callable[[bytes], object]) -> int:
    """Write dead letters; return how many."""
    count = 0
    with (
        progress_bar(_total(root, stream, selection), _NOUN) as show,
        StreamReader.open(root, stream) as reader,
    ):
        for number in sorted(reader.refresh()):
            for batch in selection.batches(reader, number):
                lines = [json.dumps(_exported(number, entry)).encode() for entry in batch]
                write(b"".join(line + b"\n" for line in lines))
                count += len(batch)
                show(count)
    return count


def retry(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    config: Path | None,
    registry: str | None,
    filters: DeadLetterFilters,
    pause: bool,
    wait: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Store dead letters as rows that are well by now."""
    selection = selection_of(filters)
    settings = _settings(config, registry)
    pausing = _Pausing("shardlog dlq retry", wait, is_wanted=pause and not dry_run)
    with (
        pausing.of(root, stream, selection),
        progress_bar(_total(root, stream, selection), _NOUN) as show,
    ):
        reports = retry_dead_letters(root, stream, selection, settings, show, is_dry_run=dry_run)
    if as_json:
        print_json([_facts(report) for report in reports])
    else:
        print_lines(_lines(reports, is_dry_run=dry_run))


def discard(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    filters: DeadLetterFilters,
    all_: bool,
    pause: bool,
    wait: float,
    execute: bool,
    as_json: bool,
) -> None:
    """Delete dead letters for good, or say which it would be."""
    selection = selection_of(filters)
    if selection == Selection() and execute and not all_:
        message = "without a filter all would be deleted: add --all if that is meant"
        raise InvalidRequestError(message, stream=stream)
    pausing = _Pausing("shardlog dlq discard", wait, is_wanted=pause and execute)
    with (
        pausing.of(root, stream, selection),
        progress_bar(_total(root, stream, selection), _NOUN) as show,
    ):
        reports = discard_dead_letters(root, stream, selection, show, is_dry_run=not execute)
    if as_json:
        print_json([{**_discarded(report), "is_executed": execute} for report in reports])
    elif not reports:
        print_line(_NONE_CHOSEN)
    elif execute:
        print_lines([_discard_line(report) for report in reports])
    else:
        print_table(_DISCARD_COLUMNS, [tuple(_row(report)) for report in reports])
        print_line("nothing was changed; add --execute to do it")


class _Pausing:
    """Pauses the partitions of chosen dead letters while a command works on them."""

    def __init__(self, command: str, wait_s: float, *, is_wanted: bool) -> None:
        self._command = command
        self._wait_s = wait_s
        self._is_wanted = is_wanted

    @contextmanager
    def of(self, root: Path, stream: str, selection: Selection) -> Iterator[None]:
        """Pause them for as long as the body runs."""
        if not self._is_wanted:
            yield
            return
        numbers = partitions_with_dead_letters(root, stream, selection)
        with paused_for_command(root, stream, numbers, self._command, wait_s=self._wait_s):
            yield


def _settings(config: Path | None, registry: str | None) -> RetrySettings:
    stream, schemas = StreamSettings(), SchemaSettings()
    if config is not None:
        options = load_options(config)
        stream, schemas = options.stream, options.value_schemas
    if registry is not None:
        schemas = schemas.model_copy(update={"registry": {**schemas.registry, "url": registry}})
    return RetrySettings(stream, schemas)


def _total(root: Path, stream: str, selection: Selection) -> int | None:
    """Return how many dead letters are chosen; None if only looking at each would say it."""
    if selection.looks_inside:
        return None
    with StreamReader.open(root, stream) as reader:
        waiting = {number: reader.stats(number).dead_letters_waiting for number in reader.refresh()}
    return waiting_in(waiting, selection)


def _exported(partition: int, entry: StoredDeadLetter) -> dict[str, Any]:
    place = {"partition": partition, "offset": entry.offset}
    dead_letter = entry.dead_letter
    if dead_letter is None:
        return {**place, "word": entry.word, "raw": _text(entry.raw)}
    headers = dead_letter.headers
    return {
        **place,
        "timestamp": dead_letter.timestamp,
        "timestamp_type": dead_letter.timestamp_type,
        "word": entry.word,
        "reason": dead_letter.reason,
        "schema_id": entry.schema_id,
        "key": _text(dead_letter.key),
        "value": _text(dead_letter.value),
        "headers": None if headers is None else [[name, _text(value)] for name, value in headers],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _lines(reports: Sequence[RetryReport], *, is_dry_run: bool) -> list[str]:
    lines = []
    for report in reports:
        outcome = "would be stored" if is_dry_run else f"stored in shard {report.shard}"
        parts = [f"{counted(report.stored, _NOUN)} {outcome}"]
        if report.late:
            parts.append(f"{report.late} of them late")
        if report.finished:
            parts.append(f"{report.finished} stored by an earlier retry cleared")
        refused = sum(report.refused.values())
        place = (
            "" if report.first_refused is None else f", the first at offset {report.first_refused}"
        )
        parts.append(f"{refused} still refused{place}")
        lines.append(f"partition {report.partition}: {', '.join(parts)}")
        lines += [f"  {count} x {reason}" for reason, count in report.refused.most_common(3)]
        if report.advice is not None:
            lines.append(f"  {report.advice}")
    return lines or [_NONE_CHOSEN]


def _discard_line(report: DiscardReport) -> str:
    return f"partition {report.partition}: {counted(report.discarded, _NOUN)} discarded"


def _discarded(report: DiscardReport) -> dict[str, Any]:
    return {
        "partition": report.partition,
        "discarded": report.discarded,
        "first_offset": report.first,
        "last_offset": report.last,
        "reasons": dict(report.reasons),
    }


def _row(report: DiscardReport) -> list[str | int | None]:
    words = ", ".join(f"{count} {word}" for word, count in report.reasons.most_common())
    return [report.partition, report.discarded, report.first, report.last, words]


def _facts(report: RetryReport) -> dict[str, Any]:
    return {
        "partition": report.partition,
        "shard": report.shard,
        "stored": report.stored,
        "late": report.late,
        "finished": report.finished,
        "refused": dict(report.refused),
        "first_refused": report.first_refused,
    }
