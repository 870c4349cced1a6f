"""`shardlog dlq export | retry | discard`: work through the dead letters that shards keep."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from connectors.cli.input.dead_letter_filters import selection_of
from connectors.cli.output.formatting import counted
from connectors.cli.output.printing import print_json, print_line, print_lines
from connectors.cli.output.progress_bar import progress_bar
from connectors.ingest.dead_letters.discard import DiscardReport
from connectors.ingest.dead_letters.discard import discard as discard_dead_letters
from connectors.ingest.dead_letters.retry import RetryReport, RetrySettings
from connectors.ingest.dead_letters.retry import retry as retry_dead_letters
from connectors.ingest.dead_letters.selection import Selection, StoredDeadLetter, waiting_in
from connectors.output_formats.whole_file import WholeFile
from connectors.settings.loading import load_options
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.stream_settings import StreamSettings
from storage_core import InvalidRequestError, StreamReader

_NOUN = "dead letter"


def export(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    to: Path,
    overwrite: bool,
    partition: list[int] | None,
    offsets: str | None,
    since: str | None,
    until: str | None,
    reason: list[str] | None,
    schema_id: list[int] | None,
) -> None:
    """Write dead letters to a file, one JSON object a line."""
    selection = selection_of(partition, offsets, since, until, reason, schema_id)
    total, count = _total(root, stream, selection), 0
    with (
        StreamReader.open(root, stream) as reader,
        WholeFile(to, overwrite=overwrite) as file,
        progress_bar(total, _NOUN) as show,
    ):
        for number in sorted(reader.refresh()):
            for entry in selection.dead_letters(reader, number):
                file.write(json.dumps(_exported(number, entry)).encode() + b"\n")
                count += 1
                show(count)
    print_line(f"{counted(count, _NOUN)} exported to {to}")


def retry(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    config: Path | None,
    registry: str | None,
    partition: list[int] | None,
    offsets: str | None,
    since: str | None,
    until: str | None,
    reason: list[str] | None,
    schema_id: list[int] | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Store dead letters as rows that are well by now."""
    selection = selection_of(partition, offsets, since, until, reason, schema_id)
    settings = _settings(config, registry)
    with progress_bar(_total(root, stream, selection), _NOUN) as show:
        reports = retry_dead_letters(root, stream, selection, settings, show, is_dry_run=dry_run)
    if as_json:
        print_json([_facts(report) for report in reports])
    else:
        print_lines(_lines(reports, is_dry_run=dry_run))


def discard(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    partition: list[int] | None,
    offsets: str | None,
    since: str | None,
    until: str | None,
    reason: list[str] | None,
    schema_id: list[int] | None,
    all_: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete dead letters for good."""
    selection = selection_of(partition, offsets, since, until, reason, schema_id)
    if selection == Selection() and not (all_ or dry_run):
        message = "without a filter all would be deleted: add --all if that is meant"
        raise InvalidRequestError(message, stream=stream)
    with progress_bar(_total(root, stream, selection), _NOUN) as show:
        reports = discard_dead_letters(root, stream, selection, show, is_dry_run=dry_run)
    if as_json:
        print_json(
            [{"partition": report.partition, "discarded": report.discarded} for report in reports]
        )
    else:
        print_lines(_discard_lines(reports, is_dry_run=dry_run))


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
        parts.append(f"{refused} still refused")
        lines.append(f"partition {report.partition}: {', '.join(parts)}")
        lines += [f"  {count} x {reason}" for reason, count in report.refused.most_common(3)]
        if report.advice is not None:
            lines.append(f"  {report.advice}")
    return lines or ["no dead letters are chosen"]


def _discard_lines(reports: Sequence[DiscardReport], *, is_dry_run: bool) -> list[str]:
    outcome = "would be discarded" if is_dry_run else "discarded"
    return [
        f"partition {report.partition}: {counted(report.discarded, _NOUN)} {outcome}"
        for report in reports
    ] or ["no dead letters are chosen"]


def _facts(report: RetryReport) -> dict[str, Any]:
    return {
        "partition": report.partition,
        "shard": report.shard,
        "stored": report.stored,
        "late": report.late,
        "finished": report.finished,
        "refused": dict(report.refused),
    }
