"""The verbs, with what the list of them says of each; a verb's own module is loaded when named."""

from collections.abc import Mapping
from typing import Any, Final

import typer
from typer.core import TyperCommand

from connectors.cli.parsing.group import Group
from connectors.cli.parsing.work import imported

# By name: which module here declares the verb or the group of verbs, and as what; and what the list
# says of it.
_VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "worker": ("worker.worker", "Store Kafka topics, exactly once, until Ctrl-C."),
    "produce": ("produce.produce", "Send telemetry, or JSON lines, to a topic."),
    "streams": ("streams.streams", "List the streams under a root."),
    "read": ("read.read", "Read records of ids or keys between two times."),
    "latest": ("latest.latest", "Show the newest record of each id or key."),
    "tail": ("tail.tail", "Show rows as they arrived, with their state."),
    "status": ("status.status", "Show how each shard stands, and what is lost."),
    "verify": ("repair.verify", "Read all that is stored, and tell what is wrong."),
    "accept-loss": ("repair.accept_loss", "Go on without a lost range."),
    "alter": ("alter.alter", "Change settings of a stream."),
    "expire": ("expire.expire", "Let go what a stream no longer keeps."),
    "seal": ("tiering.seal", "Make parts of rows: sorted files of Parquet."),
    "compact": ("tiering.compact", "Join small parts to larger ones."),
    "trim": ("tiering.trim", "Free the log of rows that are in parts."),
    "parts": ("tiering.parts", "List the parts of a stream."),
    "sql": ("sql.sql", "Ask streams in SQL."),
    "export": ("export_import.export", "Write a stream to Parquet, Avro or JSON."),
    "import": ("export_import.import_", "Take an export into a stream."),
    "drop": ("drop.drop", "Set a stream aside, or remove it."),
    "dev": ("dev.app", "Run a real Kafka broker on this machine."),
    "dlq": ("dlq.app", "Look at records that could not be stored."),
    "schema": ("schema.app", "Check, register and show Avro schemas."),
}


class Verb(TyperCommand):
    """A verb, or a group of them, of which only the list's line is there until it is called."""

    def __init__(self, name: str, declaration: str, short_help: str) -> None:
        """Name a verb, where it is declared, and what the list says of it."""
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
        alone.command(self._called)(declared)
        return typer.main.get_command(alone)

    def make_context(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - as typer calls it
        """Begin the command, which is where typer calls a verb."""
        return self.loaded().make_context(*args, **extra)


class Verbs(Group):
    """The command, with all its verbs."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as typer calls it
        """Have every verb, none loaded."""
        super().__init__(**settings)
        for name, (declaration, short_help) in _VERBS.items():
            self.add_command(Verb(name, declaration, short_help))
