"""Arguments and options of `shardlog latest`."""

from connectors.cli.parsers.read import Count, End, LatestBy, NullKey, Start, Tombstones
from connectors.cli.parsing.options import (
    Columns,
    Ids,
    KeyHexes,
    KeyTexts,
    OutputOption,
    Overwrite,
    Raw,
    RootOrServers,
    SchemaFile,
    StreamName,
    To,
)
from connectors.cli.parsing.servers import by_server
from connectors.cli.parsing.work import done_in


@by_server
@done_in("connectors.cli.commands.latest")
def latest(  # noqa: PLR0913 - one parameter an option
    root: RootOrServers,
    stream: StreamName,
    ids: Ids = None,
    keys: KeyTexts = None,
    hex_keys: KeyHexes = None,
    null_key: NullKey = False,
    latest_by: LatestBy = None,
    tombstones: Tombstones = False,
    start: Start = None,
    end: End = None,
    columns: Columns = None,
    count: Count = False,
    form: OutputOption = None,
    to: To = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    schema: SchemaFile = None,
) -> None:
    """Show the newest record of each id or key: of equal primaries the last stored.

    A tombstone that is the newest is shown; with --latest-by it is hidden.

    Example: shardlog latest ./data telemetry --id 17 --output jsonl
    """
