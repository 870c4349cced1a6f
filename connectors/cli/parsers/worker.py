"""Arguments and options of `shardlog worker`."""

from pathlib import Path
from typing import Annotated

import typer

from connectors.cli.parsing.work import done_in
from connectors.ingest.status.line_output import LogFormat


@done_in("connectors.cli.commands.worker")
def worker(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The TOML file with the settings.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Override a setting, as key=value; repeatable."),
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(help="json or text; text on a terminal, json elsewhere."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the settings, print those in force, and exit.")
    ] = False,
) -> None:
    """Consume Kafka topics into shards, exactly once, until SIGTERM, SIGHUP or Ctrl-C.

    A clean stop commits what was consumed, leaves the group and exits with 0; a second signal
    exits at once, and loses nothing that was acknowledged. The worker logs its progress 3 s after
    the first records, every 30 s, and on SIGUSR1.

    Example: shardlog worker --config shardlog.toml --set kafka.group.id=orders
    """
