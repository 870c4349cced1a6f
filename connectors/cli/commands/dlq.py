"""`shardlog dlq`: list, show and replay dead letters, records that could not be parsed.

`list` uses the shards' counters and reads one dead letter of each; `show` reads from an offset on.
A dead letter that the worker did not write is in its writer's own encoding: it is shown whole as
the value, without a reason. The word beside a reason is the label of the metrics; it stays when the
wording of the reason changes.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from connectors.cli.commands.each_stream import of_each_stream
from connectors.cli.input.arguments import kafka_settings
from connectors.cli.input.dead_letter_filters import selection_of
from connectors.cli.output.formatting import counted
from connectors.cli.output.printing import print_json, print_line, print_table
from connectors.cli.output.progress_bar import progress_bar
from connectors.cli.output.row_printer import RowPrinter
from connectors.cli.parsing.dead_letter_filters import DeadLetterFilters
from connectors.cli.parsing.options import Format
from connectors.dlq.record import reason_word
from connectors.dlq.replay import Replay
from connectors.ingest.dead_letters.selection import Selection, decoded
from connectors.kafka import Admin
from storage_core import InvalidRequestError, StreamReader

_LIST_COLUMNS: Final = ("stream", "shard", "dead letters", "first offset", "reason of the first")
_COLUMNS: Final = ("shard", "offset", "timestamp", "word", "reason", "key", "value", "headers")
_PRINT_ROWS: Final = 256
_BROKER_WAIT_S: Final = 10.0


def list_(
    *,
    root: Path,
    stream: str | None,
    filters: DeadLetterFilters,
    as_json: bool,
) -> None:
    """List the shards that have dead letters: how many, and the reason of the first."""
    selection = selection_of(filters)
    rows, error = of_each_stream(root, stream, partial(_summaries, root, selection))
    if as_json:
        names = ("stream", "shard", "dead_letters", "first_offset", "reason_of_first")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows or error is None:
        print_table(_LIST_COLUMNS, rows)
    if error is not None:
        raise error


def show(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    filters: DeadLetterFilters,
    start: int,
    limit: int,
    form: Format,
) -> None:
    """Show dead letters: offset, reason, and the record byte for byte."""
    with StreamReader.open(root, stream) as reader:
        committed = reader.refresh()
        selection = selection_of(filters)
        selection = replace(selection, start=max(selection.start, start))
        for missing in selection.partitions - set(committed):
            message = f"there is no shard {missing}; there are {sorted(committed)}"
            raise InvalidRequestError(message, stream=stream)
        printer = RowPrinter(form, _COLUMNS)
        for number in sorted(selection.partitions) or committed:
            dead_letters = islice(selection.dead_letters(reader, number), limit or None)
            rows = (_row(number, each.offset, each.raw) for each in dead_letters)
            while chunk := list(islice(rows, _PRINT_ROWS)):
                printer.rows(chunk)
        printer.end()


def replay(  # noqa: PLR0913 - one parameter an option
    *,
    topic: str,
    bootstrap: str,
    group: str,
    limit: int,
    dry_run: bool,
    kafka: list[str] | None,
) -> None:
    """Send forwarded records back to the partitions they came from, each once."""
    settings: dict[str, object] = {**kafka_settings(kafka), "bootstrap.servers": bootstrap}
    Admin(settings).await_broker(_BROKER_WAIT_S)
    replaying = Replay({**settings, "group.id": group}, topic, is_dry_run=dry_run)
    try:
        with progress_bar(replaying.waiting) as show:
            replaying.run(limit or None, show)
    finally:
        replaying.close()
        report = replaying.report
        outcome = "would be replayed" if dry_run else "replayed"
        print_line(
            f"{counted(report.replayed, 'record')} {outcome}; skipped: "
            f"{counted(report.doubled, 'duplicate')}, {report.foreign} without an origin"
        )


def _summaries(
    root: Path, selection: Selection, name: str
) -> Iterator[tuple[str, int, int, int, str | None]]:
    with StreamReader.open(root, name) as reader:
        for number in reader.refresh():
            dead_letters = selection.dead_letters(reader, number)
            first = next(dead_letters, None)
            if first is None:
                continue
            if selection.looks_inside:
                count = 1 + sum(1 for _ in dead_letters)
            else:
                count = max(reader.stats(number).dead_letters_waiting, 1)
            dead_letter = first.dead_letter
            yield (
                name,
                number,
                count,
                first.offset,
                None if dead_letter is None else dead_letter.reason,
            )


def _row(shard: int, offset: int, raw: bytes) -> dict[str, Any]:
    dead_letter = decoded(raw)
    if dead_letter is None:
        fields: tuple[object, ...] = (None, None, None, None, raw, None)
    else:
        pairs = dead_letter.headers
        headers = None if pairs is None else [{"key": key, "value": value} for key, value in pairs]
        word = reason_word(raw)
        # Most reasons of a value begin with their word, which has a column of its own.
        reason = dead_letter.reason.removeprefix(f"{word.replace('_', ' ')}: ")
        record = dead_letter.key, dead_letter.value, headers
        fields = (dead_letter.timestamp, word, reason, *record)
    return dict(zip(_COLUMNS, (shard, offset, *fields), strict=True))
