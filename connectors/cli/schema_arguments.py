"""What the verbs of `shardlog schema` are told: files, subjects, and where the registry is.

The registry is told, the last word counts: by the table [schema.registry] of a configuration file,
by $SCHEMA_REGISTRY_URL or --registry, by --set. Credentials belong into the file or the address in
the environment: other users of the machine see what stands on a command line.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from connectors.registry import RegistryClient, RegistrySettings, SchemaFile, settings_in_file
from storage_core import InvalidRequestError

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

_URL: Final = "url"


def registry_client(
    url: str | None, config: Path | None, given: list[str] | None
) -> RegistryClient:
    """Return a client for the registry that the options name.

    Raises:
        InvalidRequestError: None is named, or a setting is none.
    """
    settings = {} if config is None else settings_in_file(config)
    if url is not None:
        settings[_URL] = url
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals:
            message = "--set: write KEY=VALUE"
            raise InvalidRequestError(message)
        settings[name] = value
    if _URL not in settings:
        message = (
            "no schema registry is named: give --registry URL, set SCHEMA_REGISTRY_URL, or name a "
            "file with [schema.registry] by --config"
        )
        raise InvalidRequestError(message)
    return RegistryClient(RegistrySettings.parse(settings))


def subject_names(
    files: Sequence[SchemaFile], naming: Naming, subject: str | None
) -> dict[Path, str]:
    """Return the subject of each file.

    Raises:
        InvalidRequestError: One subject is named for several schemas.
    """
    referred = {below.full_name for file in files for below in file.references}
    own = {file.full_name for file in files if file.full_name not in referred}
    if subject is not None and len(own) != 1:
        message = (
            f"--subject {subject}: the files hold {len(own)} schemas that nothing refers to; a "
            "subject is of one"
        )
        raise InvalidRequestError(message)

    def name_of(file: SchemaFile) -> str:
        if file.full_name in referred:
            return file.full_name
        if subject is not None:
            return subject
        return f"{file.name}-value" if naming == "topic" else file.full_name

    return {file.path: name_of(file) for file in files}
