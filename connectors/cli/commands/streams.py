"""`shardlog streams`: the streams under a root, each with what it holds.

A damaged stream does not hide its neighbours: they are listed first, then its error is told. Of
logs that a reset has archived, servers do not tell the bytes.
"""

from pathlib import Path

from connectors.cli.commands.each_stream import of_streams
from connectors.cli.input.roots import NamedRoot, root_named
from connectors.cli.output.printing import print_json, print_table
from storage_core import StreamReader, archived_shard_directory, archived_shards
from storage_core.platform.disk_usage import disk_bytes

_COLUMNS = ("stream", "kind", "keys", "shards", "records", "committed", "late", "dead letters")
# Of logs that a reset has archived: a column only where there are any.
_ARCHIVED = "archived bytes"


def streams(*, root: str, as_json: bool) -> None:
    """List the streams under a root."""
    source = root_named(root)
    rows, error = of_streams(source.streams, lambda name: [_row(source, name)])
    if as_json:
        names = [column.replace(" ", "_") for column in (*_COLUMNS, _ARCHIVED)]
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        has_archived = any(row[-1] for row in rows)
        columns = (*_COLUMNS, _ARCHIVED) if has_archived else _COLUMNS
        print_table(columns, [row[: len(columns)] for row in rows])
    if error is not None:
        raise error


def _row(source: NamedRoot, name: str) -> tuple[str, str, str, int, int, int, int, int, int | None]:
    with StreamReader.open(source.place, name) as reader:
        committed = reader.refresh()
        stats = reader.stats()
        return (
            name,
            "stream" if reader.origin is None else reader.origin.kind,
            _keys_of(reader),
            len(committed),
            stats.records,
            sum(committed.values()),
            stats.late_arrivals,
            stats.dead_letters_waiting,
            None if source.directory is None else _archived_bytes(source.directory, name),
        )


def _archived_bytes(root: Path, name: str) -> int:
    places = (archived_shard_directory(root, name, one) for one in archived_shards(root, name))
    return sum(disk_bytes(place) for place in places if place is not None)


def _keys_of(reader: StreamReader) -> str:
    if reader.options.key_mode == "dictionary":
        return "dictionary"
    if reader.origin is None:
        return "id"
    # A field of the values, where that is the id.
    has_field = reader.has_ids and reader.origin.key_mode == "none"
    return reader.origin.secondary if has_field else reader.origin.key_mode
