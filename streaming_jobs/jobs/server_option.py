"""`--server HOST:PORT` in the place of ROOT of a job's command, as `shardlog` has it.

It is the same as the address in ROOT's place, `shardlog://HOST:PORT`.
"""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from storage_core.platform.overriding import override
from storage_core.remote.addresses import PLAIN, names_servers

# What typer says of a word that no argument takes.
_UNEXPECTED: Final = "unexpected extra argument(s)"
_OPTION: Final = "--server"
Server = Annotated[
    str | None,
    typer.Option(
        _OPTION,
        metavar="HOST:PORT",
        help="Servers over the root in the place of ROOT, several with commas between. Over TLS it "
        "is shardlogs://HOST:PORT. SHARDLOG_SERVER_TOKEN_FILE names a file with the token, "
        "SHARDLOG_SERVER_CA_FILE one with certificates.",
        show_default=False,
    ),
]


class ServerCommand(TyperCommand):
    """A command whose ROOT may be servers; the option is put in ROOT's place."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put what --server names in ROOT's place."""
        rest, servers = _without_option(args)
        if servers is not None:
            rest.insert(0, servers if names_servers(servers) else PLAIN + servers)
        try:
            return super().parse_args(ctx, rest)
        except typer.TyperException as error:
            if servers is None or _UNEXPECTED not in error.format_message():
                raise
            message = f"{_OPTION} is in the place of ROOT: leave ROOT out"
            raise typer.BadParameter(message) from error


def _without_option(args: list[str]) -> tuple[list[str], str | None]:
    """Return what stands beside the option, and the option's value."""
    end = args.index("--") if "--" in args else len(args)
    for place, word in enumerate(args[:end]):
        if word == _OPTION and place + 1 < end:
            return [*args[:place], *args[place + 2 :]], args[place + 1]
        if word.startswith(_OPTION + "="):
            return [*args[:place], *args[place + 1 :]], word.partition("=")[2]
    return list(args), None
