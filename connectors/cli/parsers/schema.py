"""Arguments and options of `shardlog schema`: files, subjects, and where the registry is.

The registry's settings come from the table [schema.registry] of a configuration file, from
$SCHEMA_REGISTRY_URL or --registry, and from --set; the last of them counts. Credentials belong into
the file or the environment: other users of the machine see the command line.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from connectors.cli.parsing.group import Group
from connectors.cli.parsing.options import AsJson
from connectors.cli.parsing.work import done_in

Naming = Literal["topic", "record"]

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH", help="Files <name>.v<k>.avsc, or folders of them.", show_default=False
    ),
]
Registry = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="SCHEMA_REGISTRY_URL", help="Address of the schema registry."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML file whose table [schema.registry] says how."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of the registry's client, as ssl.ca.location=ca.pem; several times.",
    ),
]
NamingOption = Annotated[
    Naming,
    typer.Option(
        help="Subjects are <file's name>-value (topic), or a schema's full name (record); what "
        "others refer to always has its full name.",
    ),
]
Subject = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The subject, of files that are versions of one schema."),
]

app = typer.Typer(
    cls=Group,
    help="Check and register Avro schemas, and look at those of a registry.\n\n"
    "Example: shardlog schema check schemas/avro",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Offline = Annotated[
    bool, typer.Option("--offline", help="Hold the files against each other; ask no registry.")
]
ShownSubject = Annotated[
    str | None, typer.Argument(metavar="SUBJECT", help="The subject.", show_default=False)
]
Version = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="A version; without it, the latest.")
]
Id = Annotated[int | None, typer.Option("--id", metavar="N", min=0, help="Instead, an id.")]


@app.command("check", short_help="Say whether schemas are, or could be, registered.")
@done_in("connectors.cli.commands.schema")
def check(  # noqa: PLR0913 - one parameter an option
    paths: Paths,
    registry: Registry = None,
    config: Config = None,
    settings: Set = None,
    naming: NamingOption = "topic",
    subject: Subject = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """Say of each schema whether it is registered, or could be; change nothing.

    Example: shardlog schema check schemas --registry http://localhost:8081
    """


@app.command("register", short_help="Register schemas and what they refer to.")
@done_in("connectors.cli.commands.schema")
def register(  # noqa: PLR0913 - as above
    paths: Paths,
    registry: Registry = None,
    config: Config = None,
    settings: Set = None,
    naming: NamingOption = "topic",
    subject: Subject = None,
    as_json: AsJson = False,
) -> None:
    """Register schemas and what they refer to, in their order; none if one is incompatible.

    Example: shardlog schema register schemas --registry http://localhost:8081
    """


@app.command("list", short_help="List the subjects of a registry.")
@done_in("connectors.cli.commands.schema")
def list_(
    registry: Registry = None,
    config: Config = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """List the subjects: how many versions, the latest one's id, how far they are compatible.

    Example: shardlog schema list --registry http://localhost:8081
    """


@app.command("show", short_help="Show a schema.")
@done_in("connectors.cli.commands.schema")
def show(  # noqa: PLR0913 - as above
    subject: ShownSubject = None,
    version: Version = None,
    schema_id: Id = None,
    registry: Registry = None,
    config: Config = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Show a schema: its text, what it refers to, its fingerprint.

    Example: shardlog schema show orders-value --registry http://localhost:8081
    """
