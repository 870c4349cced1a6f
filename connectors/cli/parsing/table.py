"""The table of commands: a line of help for each; a command's own module is loaded when named."""

from collections.abc import Mapping
from typing import Any, Final

import typer
from typer.core import TyperCommand

from connectors.cli.parsing.group import Group
from connectors.cli.parsing.work import COMMAND_CLASS, imported

# By name: the declaration in `connectors/cli/parsers`, and the line of help.
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "worker": ("worker.worker", "Store Kafka topics, exactly once, until Ctrl-C."),
    "produce": ("produce.produce", "Send telemetry, or JSON lines, to a topic."),
    "streams": ("streams.streams", "List the streams under a root."),
    "read": ("read.read", "Read records of ids or keys between two times."),
    "latest": ("latest.latest", "Show the newest record of each id or key."),
    "tail": ("tail.tail", "Show rows as they arrived, with their state."),
    "status": ("status.status", "Show the state of each shard, and lost ranges."),
    "verify": ("repair.verify", "Read all that is stored, and report damage."),
    "accept-loss": ("repair.accept_loss", "Accept the loss of a range of addresses."),
    "alter": ("alter.alter", "Change settings of a stream."),
    "expire": ("expire.expire", "Delete rows older than retention or over a cap."),
    "seal": ("tiering.seal", "Write rows to parts: sorted Parquet files."),
    "compact": ("tiering.compact", "Merge small parts into larger ones."),
    "trim": ("tiering.trim", "Delete blocks of the log whose rows are in parts."),
    "parts": ("tiering.parts", "List the parts of a stream."),
    "lake": ("lake.lake.app", "Publish parts as a Delta table; show, check and vacuum it."),
    "sql": ("sql.sql", "Run SQL over streams."),
    "command": ("events.command.command", "Store and query typed events, by commands."),
    "serve": ("server.serve.serve", "Serve the streams of a root to other machines, over HTTP."),
    "export": ("export_import.export", "Write a stream to Parquet, Avro or JSON."),
    "import": ("export_import.import_", "Read an export into a stream."),
    "drop": ("drop.drop", "Drop a stream: move it away, or remove it."),
    "dev": ("dev.app", "Run a real Kafka broker on this machine."),
    "group": ("group.app", "Show, pause, resume, retry and reset partitions."),
    "dlq": ("dlq.app", "Show, retry, discard and replay dead letters."),
    "schema": ("schema.app", "Check, register and show Avro schemas."),
}


class LazyCommand(TyperCommand):
    """A command, or a group of them: a name and a line of help until it is called."""

    def __init__(self, name: str, declaration: str, short_help: str) -> None:
        """Name a command, its declaration, and its line of help."""
        super().__init__(name, short_help=short_help)
        self._called = name
        self._declaration = declaration

    def loaded(self) -> Any:  # noqa: ANN401 - typer has no public name for a command
        """Return the command as it is declared."""
        module, _, name = self._declaration.rpartition(".")
        declared = getattr(imported(f"connectors.cli.parsers.{module}"), name)
        if isinstance(declared, typer.Typer):
            return typer.main.get_command(declared)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(self._called, cls=vars(declared).get(COMMAND_CLASS, TyperCommand))(declared)
        return typer.main.get_command(alone)

    def make_context(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - as typer calls it
        """Load the command and begin it: typer calls this first."""
        return self.loaded().make_context(*args, **extra)


class CommandTable(Group):
    """`shardlog`, with all its commands."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as typer calls it
        """Add every command, none loaded."""
        super().__init__(**settings)
        for name, (declaration, short_help) in _COMMANDS.items():
            self.add_command(LazyCommand(name, declaration, short_help))
