"""`--server HOST:PORT` in the place of ROOT: a command, or a job's, asks servers over a root.

It is the same as the address in ROOT's place, `shardlog://HOST:PORT`. A token and certificates are
named in the environment (SHARDLOG_SERVER_TOKEN_FILE, SHARDLOG_SERVER_CA_FILE): they are no part of
a command, which others on the machine can see.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand

from connectors.cli.parsing.work import COMMAND_CLASS

# What typer says of a word that no argument takes.
_UNEXPECTED: Final = "unexpected extra argument(s)"
_OPTION: Final = "--server"
_F = TypeVar("_F", bound=Callable[..., object])


class ServerCommand(TyperCommand):
    """A command whose ROOT may be servers."""

    def __init__(self, *args: Any, **settings: Any) -> None:  # noqa: ANN401 - as typer calls it
        """Add the option."""
        super().__init__(*args, **settings)
        self.params.append(_option())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as typer calls it
        """Put what --server names in ROOT's place."""
        rest, servers = _without_option(args)
        if servers is not None:
            # Loaded for who names servers: `--help` does without.
            from storage_core.remote.addresses import PLAIN, names_servers  # noqa: PLC0415

            rest.insert(0, servers if names_servers(servers) else PLAIN + servers)
        try:
            return super().parse_args(ctx, rest)
        except typer.TyperException as error:
            if servers is None or _UNEXPECTED not in error.format_message():
                raise
            message = f"{_OPTION} is in the place of ROOT: leave ROOT out"
            raise typer.BadParameter(message) from error


def _option() -> Any:  # noqa: ANN401 - typer has no public name for an option
    """Return the option as typer makes it; no value of it is handed to the command."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)

    @alone.command()
    def _declared(
        server: Annotated[
            str | None,
            typer.Option(
                _OPTION,
                metavar="HOST:PORT",
                help="Ask this server in the place of ROOT; several with commas between. "
                "Over TLS it is shardlogs://HOST:PORT. SHARDLOG_SERVER_TOKEN_FILE names a file "
                "with the token, SHARDLOG_SERVER_CA_FILE one with certificates.",
            ),
        ] = None,
    ) -> None:
        del server

    command = typer.main.get_command(alone)
    option = next(one for one in command.params if _OPTION in one.opts)
    option.expose_value = False
    return option


def by_server(declared: _F) -> _F:
    """Let a declared command ask servers, too."""
    vars(declared)[COMMAND_CLASS] = ServerCommand
    return declared


def _without_option(args: list[str]) -> tuple[list[str], str | None]:
    """Return what stands beside the option, and the option's value."""
    end = args.index("--") if "--" in args else len(args)
    for place, word in enumerate(args[:end]):
        if word == _OPTION and place + 1 < end:
            return [*args[:place], *args[place + 2 :]], args[place + 1]
        if word.startswith(_OPTION + "="):
            return [*args[:place], *args[place + 1 :]], word.partition("=")[2]
    return list(args), None
