"""Arguments and options of `shardlog streams`."""

from connectors.cli.parsing.options import AsJson, RootOrServers
from connectors.cli.parsing.servers import by_server
from connectors.cli.parsing.work import done_in


@by_server
@done_in("connectors.cli.commands.streams")
def streams(root: RootOrServers, as_json: AsJson = False) -> None:
    """List the streams under a root.

    `keys` says what ids are: given by the caller (`id`), integer keys of the topic (`integer`),
    keys of any bytes (`dictionary`), or not keys (`none`). `committed` is the sum of the shards'
    next addresses; `dead letters` are records that could not be parsed.

    Example: shardlog streams ./data --json
    """
