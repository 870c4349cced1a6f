"""`shardlog schema`: schemas in files and in a registry: check, register, list, show.

For CI: 0, all is well; 8, a schema is incompatible, and nothing was registered; 2, a file is no
schema, or credentials or an address are wrong, or what was asked for is not there; 3, the registry
does not answer.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import typer

from connectors.cli.arguments import AsJson
from connectors.cli.exit_codes import EXIT_INCOMPATIBLE
from connectors.cli.printing import print_json, print_lines, print_table
from connectors.cli.schema_arguments import (
    Config,
    NamingOption,
    Paths,
    Registry,
    Set,
    Subject,
    registry_client,
    subject_names,
)
from connectors.cli.schema_checks import Checked, checked, registered
from connectors.registry import Compatibility, RegisteredSchema, read_schema_files
from storage_core import InvalidRequestError
from storage_core.fields import AvroSchema

app = typer.Typer(
    help="Check and register Avro schemas, and look at those of a registry.\n\n"
    "Example: shardlog schema check schemas/avro",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_COLUMNS: Final = ("file", "subject", "status", "id", "version", "level")
# A warning stays one line, however many subjects a registry has; the table has the levels.
_WARN_NAMES_MAX: Final = 5
_LIST_COLUMNS: Final = ("subject", "versions", "latest", "id", "level")

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
    files = read_schema_files(paths)
    client = None if offline else registry_client(registry, config, settings)
    found = checked(files, subject_names(files, naming, subject), client)
    _print(found, as_json=as_json)
    _end_if_incompatible(found)


@app.command("register", short_help="Register schemas and what they refer to.")
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
    files = read_schema_files(paths)
    client = registry_client(registry, config, settings)
    subjects = subject_names(files, naming, subject)
    found = checked(files, subjects, client)
    if any(one.status == "incompatible" for one in found):
        _print(found, as_json=as_json)
        _end_if_incompatible(found)
    _print(registered(files, subjects, client), as_json=as_json)


@app.command("list", short_help="List the subjects of a registry.")
def list_(
    registry: Registry = None,
    config: Config = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """List the subjects: how many versions, the latest one's id, how far they are compatible.

    Example: shardlog schema list --registry http://localhost:8081
    """
    client = registry_client(registry, config, settings)
    rows = []
    levels: dict[str, Compatibility] = {}
    for name in client.subjects():
        versions = client.versions(name)
        latest = client.latest(name)
        levels[name] = client.compatibility(name)
        rows.append((name, len(versions), latest.version, latest.id, levels[name].level))
    if as_json:
        print_json([dict(zip(_LIST_COLUMNS, row, strict=True)) for row in rows])
    else:
        print_table(_LIST_COLUMNS, rows)
    _warn(levels)


@app.command("show", short_help="Show a schema.")
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
    if (subject is None) == (schema_id is None):
        message = "name a SUBJECT, or an --id"
        raise InvalidRequestError(message)
    client = registry_client(registry, config, settings)
    if schema_id is not None:
        found = client.schema_by_id(schema_id)
    else:
        assert subject is not None, "one of them is there"
        found = client.latest(subject) if version is None else client.version(subject, version)
    facts = _facts(found)
    if subject is not None:
        level = client.compatibility(subject)
        facts["level"] = level.level
        _warn({subject: level})
    if as_json:
        print_json({**facts, "schema": found.text})
    else:
        lines = [f"{name}: {value}" for name, value in facts.items() if value is not None]
        print_lines([*lines, "", *_indented(found.text)])


def _facts(found: RegisteredSchema) -> dict[str, Any]:
    schema = AvroSchema.parse(found.text, found.references)
    referred = [f"{one.name} ({one.subject}, version {one.version})" for one in found.referred]
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "name": schema.full_name,
        "fingerprint": schema.fingerprint.hex(),
        "references": ", ".join(referred) or None,
    }


def _indented(text: str) -> Sequence[str]:
    return json.dumps(json.loads(text), indent=2).splitlines()


def _print(found: Iterable[Checked], *, as_json: bool) -> None:
    found = list(found)
    rows = [
        (
            str(one.file.path),
            one.subject,
            one.status,
            one.id,
            one.version,
            None if one.compatibility is None else one.compatibility.level,
        )
        for one in found
    ]
    if as_json:
        names = (*_COLUMNS, "why")
        whole = [(*row, one.why) for row, one in zip(rows, found, strict=True)]
        print_json([dict(zip(names, row, strict=True)) for row in whole])
    else:
        print_table(_COLUMNS, rows)
    levels = {one.subject: one.compatibility for one in found if one.compatibility is not None}
    _warn(levels)


def _warn(levels: dict[str, Compatibility]) -> None:
    """Say which subjects are held against their last version only."""
    short = [f"{name} ({level.level})" for name, level in levels.items() if not level.is_transitive]
    if short:
        named = ", ".join(short[:_WARN_NAMES_MAX])
        more = len(short) - _WARN_NAMES_MAX
        named += f" and {more} more" if more > 0 else ""
        typer.echo(
            f"shardlog: not held against all their versions: {named}; rows of every "
            "version lie in a stream: set BACKWARD_TRANSITIVE or FULL_TRANSITIVE",
            err=True,
        )


def _end_if_incompatible(found: Iterable[Checked]) -> None:
    bad = [one for one in found if one.status == "incompatible"]
    for one in bad:
        typer.echo(f"shardlog: {one.file.path}: subject {one.subject}: {one.why}", err=True)
    if bad:
        raise typer.Exit(EXIT_INCOMPATIBLE)
