"""A group of commands: suggestions for unknown names, and help without loading pydantic."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from typer.core import TyperGroup

# What people type who know other programs, and the commands of any group that do it.
_CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    "cat": ("tail",),
    "consume": ("worker",),
    "consumer": ("worker",),
    "delete": ("drop",),
    "describe": ("status",),
    "head": ("read",),
    "info": ("status",),
    "ingest": ("worker",),
    "lag": ("status",),
    "list": ("streams",),
    "ls": ("streams", "list"),
    "pause": ("group pause",),
    "query": ("sql",),
    "remove": ("drop",),
    "replay": ("dlq replay",),
    "restore": ("import",),
    "resume": ("group resume",),
    "retry": ("replay", "group retry"),
    "rm": ("drop",),
    "run": ("worker", "up"),
    "start": ("worker", "up"),
    "stop": ("down",),
    "topics": ("streams",),
    "unpause": ("resume", "group resume"),
}


class Group(TyperGroup):
    """Commands below a name, as `shardlog dlq list`."""

    def get_help_option(self, ctx: Any) -> Any:  # noqa: ANN401 - as typer calls it
        """Return --help with a value where it is not given.

        NOTE: what an option without a value is, typer 0.29 asks pydantic, which takes as long to
        load as all that the help of a command needs.
        """
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - as typer calls it
        """Return the command; for an unknown name fail with a suggestion, or with where to look."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            called = _CALLED.get(name.lower(), ())
            command = next((one for one in called if one.split()[0] in self.commands), None)
            if command is not None:
                ctx.fail(f"No such command {name!r}. Did you mean {command!r}?")
            if not get_close_matches(name, self.commands):
                ctx.fail(f"No such command {name!r}; `{ctx.command_path} --help` lists them")
        return super().resolve_command(ctx, args)
