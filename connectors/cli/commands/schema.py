"""`shardlog schema`: schemas in files and in a registry: check, register, list, show.

For CI: 0, all is well; 8, a schema is incompatible, and nothing was registered; 2, a file is no
schema, or credentials or an address are wrong, or what was asked for is not there; 3, the registry
does not answer.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from connectors.cli.exit_codes import EXIT_INCOMPATIBLE
from connectors.cli.input.schema_arguments import registry_client, subject_names
from connectors.cli.input.schema_checks import Checked, checked, registered
from connectors.cli.output.printing import print_json, print_lines, print_table
from connectors.cli.parsers.schema import Naming
from connectors.output_formats.json_text import json_text
from connectors.registry import (
    Compatibility,
    RegisteredSchema,
    SchemaNotFoundError,
    read_schema_files,
)
from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema

_COLUMNS: Final = ("file", "subject", "status", "id", "version", "level")
# A warning stays one line, however many subjects a registry has; the table has the levels.
_WARN_NAMES_MAX: Final = 5
_LIST_COLUMNS: Final = ("subject", "versions", "latest", "id", "level")


def check(  # noqa: PLR0913 - one parameter an option
    *,
    paths: list[Path],
    registry: str | None,
    config: Path | None,
    settings: list[str] | None,
    naming: Naming,
    subject: str | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Say of each schema whether it is registered, or could be; change nothing."""
    files = read_schema_files(paths)
    client = None if offline else registry_client(registry, config, settings)
    results = checked(files, subject_names(files, naming, subject), client)
    _print(results, as_json=as_json)
    _end_if_incompatible(results)


def register(  # noqa: PLR0913 - one parameter an option
    *,
    paths: list[Path],
    registry: str | None,
    config: Path | None,
    settings: list[str] | None,
    naming: Naming,
    subject: str | None,
    as_json: bool,
) -> None:
    """Register schemas and what they refer to, in their order; none if one is incompatible."""
    files = read_schema_files(paths)
    client = registry_client(registry, config, settings)
    subjects = subject_names(files, naming, subject)
    results = checked(files, subjects, client)
    if any(one.status == "incompatible" for one in results):
        _print(results, as_json=as_json)
        _end_if_incompatible(results)
    _print(registered(files, subjects, client), as_json=as_json)


def list_(
    *,
    registry: str | None,
    config: Path | None,
    settings: list[str] | None,
    as_json: bool,
) -> None:
    """List the subjects: how many versions, the latest one's id, how far they are compatible."""
    client = registry_client(registry, config, settings)
    rows = []
    levels: dict[str, Compatibility] = {}
    for name in client.subjects():
        versions = client.versions(name)
        try:
            latest = client.latest(name)
        except SchemaNotFoundError as error:
            # Of another kind, or deleted meanwhile: the others are listed all the same.
            typer.echo(f"shardlog: left out: {error}", err=True)
            continue
        levels[name] = client.compatibility(name)
        rows.append((name, len(versions), latest.version, latest.id, levels[name].level))
    if as_json:
        print_json([dict(zip(_LIST_COLUMNS, row, strict=True)) for row in rows])
    else:
        print_table(_LIST_COLUMNS, rows)
    _warn(levels)


def show(  # noqa: PLR0913 - one parameter an option
    *,
    subject: str | None,
    version: int | None,
    schema_id: int | None,
    registry: str | None,
    config: Path | None,
    settings: list[str] | None,
    as_json: bool,
) -> None:
    """Show a schema: its text, what it refers to, its fingerprint."""
    if (subject is None) == (schema_id is None):
        message = "name a SUBJECT, or an --id"
        raise InvalidRequestError(message)
    client = registry_client(registry, config, settings)
    if schema_id is not None:
        schema = client.schema_by_id(schema_id)
    else:
        assert subject is not None, "one of them is there"
        schema = client.latest(subject) if version is None else client.version(subject, version)
    facts = _facts(schema)
    if subject is not None:
        level = client.compatibility(subject)
        facts["level"] = level.level
        _warn({subject: level})
    if as_json:
        print_json({**facts, "schema": schema.text})
    else:
        lines = [f"{name}: {value}" for name, value in facts.items() if value is not None]
        print_lines([*lines, "", *_indented(schema.text)])


def _facts(registered: RegisteredSchema) -> dict[str, Any]:
    schema = AvroSchema.parse(registered.text, registered.references)
    referred = [f"{one.name} ({one.subject}, version {one.version})" for one in registered.referred]
    return {
        "subject": registered.subject,
        "version": registered.version,
        "id": registered.id,
        "name": schema.full_name,
        "fingerprint": schema.fingerprint.hex(),
        "references": ", ".join(referred) or None,
    }


def _indented(text: str) -> Sequence[str]:
    return json_text(json.loads(text), indent=2).splitlines()


def _print(results: Iterable[Checked], *, as_json: bool) -> None:
    results = list(results)
    rows = [
        (
            str(result.file.path),
            result.subject,
            result.status,
            result.id,
            result.version,
            None if result.compatibility is None else result.compatibility.level,
        )
        for result in results
    ]
    if as_json:
        names = (*_COLUMNS, "why")
        whole = [(*row, result.why) for row, result in zip(rows, results, strict=True)]
        print_json([dict(zip(names, row, strict=True)) for row in whole])
    else:
        print_table(_COLUMNS, rows)
    levels = {
        result.subject: result.compatibility
        for result in results
        if result.compatibility is not None
    }
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


def _end_if_incompatible(results: Iterable[Checked]) -> None:
    bad = [result for result in results if result.status == "incompatible"]
    for result in bad:
        typer.echo(
            f"shardlog: {result.file.path}: subject {result.subject}: {result.why}", err=True
        )
    if bad:
        raise typer.Exit(EXIT_INCOMPATIBLE)
