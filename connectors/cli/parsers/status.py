"""Arguments and options of `shardlog status`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import AsJson, KafkaSettings, OneStream, RootOrServers
from connectors.cli.parsing.servers import by_server
from connectors.cli.parsing.work import done_in

Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="KAFKA_BOOTSTRAP",
        help="Kafka brokers; with them, log ends and lag are shown.",
    ),
]
BrokerWait = Annotated[
    float, typer.Option(metavar="S", min=0.1, help="How long to wait for a broker, in seconds.")
]


@by_server
@done_in("connectors.cli.commands.status")
def status(  # noqa: PLR0913 - one parameter an option
    root: RootOrServers,
    stream: OneStream = None,
    as_json: AsJson = False,
    bootstrap: Brokers = None,
    kafka: KafkaSettings = None,
    broker_wait: BrokerWait = 5.0,
) -> None:
    """Show the state of each shard; the exit code says if a range is lost or quarantined.

    `newest` is the age of the newest of the last thousand records; `first` and `last` are the times
    of the rows that arrived first and last. `dead letters` are in the store; others were
    `forwarded` or `dropped`. `held back` are offsets behind an open transaction. Columns that are
    empty for every shard are left out of the table, not of the JSON.

    Example: shardlog status ./data telemetry --json
    """
