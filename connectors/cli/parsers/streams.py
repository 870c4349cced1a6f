"""Arguments and options of `shardlog streams`."""

from connectors.cli.parsing.options import AsJson, Root
from connectors.cli.parsing.work import done_in


@done_in("connectors.cli.commands.streams")
def streams(root: Root, as_json: AsJson = False) -> None:
    """List the streams under a root.

    `keys` says what records belong to: ids (`id`), a topic's keys as ids (`integer`), keys of any
    bytes (`dictionary`), or nothing that their keys say (`none`). `committed` is the sum of the
    shards' exclusive ends, `dead letters` are records kept raw.

    Example: shardlog streams ./data --json
    """
