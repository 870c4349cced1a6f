"""The registry and subjects that the options of `shardlog schema` name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from connectors.cli.parsers.schema import Naming
from connectors.registry import RegistryClient, RegistrySettings, SchemaFile, settings_in_file
from storage_core import InvalidRequestError

_URL: Final = "url"


def registry_client(
    url: str | None, config: Path | None, pairs: list[str] | None
) -> RegistryClient:
    """Return a client for the registry that the options name.

    Raises:
        InvalidRequestError: No registry is named, or a setting is invalid.
    """
    settings = {} if config is None else settings_in_file(config)
    if url is not None:
        settings[_URL] = url
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            message = "--set: write KEY=VALUE"
            raise InvalidRequestError(message)
        settings[name] = value
    if _URL not in settings:
        message = (
            "no schema registry is named: give --registry URL, set SCHEMA_REGISTRY_URL, or give a "
            "file with [schema.registry] as --config"
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
            f"--subject {subject}: the files have {len(own)} schemas that no other refers to; a "
            "subject has one"
        )
        raise InvalidRequestError(message)

    def name_of(file: SchemaFile) -> str:
        if file.full_name in referred:
            return file.full_name
        if subject is not None:
            return subject
        return f"{file.name}-value" if naming == "topic" else file.full_name

    return {file.path: name_of(file) for file in files}
