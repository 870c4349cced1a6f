"""Schemas as options name them: by text, by file, or as a version of a registry's subject.

    {"type": "record", "name": …}      the schema itself; or "long", in JSON's quotes
    schemas/avro/telemetry.v2.avsc     a file of the driver's machine, or its `file:` URI; what it
                                       refers to lies beside it
    telemetry-value --version 3        as one says it to `shardlog schema show`

Read on the driver, once for a query; tasks are sent the schema's text. A version that a registry
has returned is cached as long as the Spark application lives (version_cache.py). The registry is
reached as `shardlog schema` reaches it: by `schemaRegistryUrl` or $SCHEMA_REGISTRY_URL, all else by
the table [schema.registry] of the TOML file that `schemaRegistryConfig` names. Spark shows options
in plans and logs, so credentials in the option are refused: they belong into the file or the
environment.
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from connectors.registry import (
    RegistryClient,
    RegistrySettings,
    RegistryUnavailableError,
    schema_in_file,
    settings_in_file,
)
from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema
from streaming_jobs.common.option_values import OptionValues, path_here, shortened
from streaming_jobs.common.version_cache import (
    APPLICATIONS_DIRECTORIES,
    CachedVersion,
    VersionCache,
)

_LOG: Final = logging.getLogger("shardlog")
REGISTRY_OPTIONS: Final = ("schemaRegistryUrl", "schemaRegistryConfig")
LATEST_SCHEMA: Final = "latest"
_URL: Final = "url"
_URL_IN_ENVIRONMENT: Final = "SCHEMA_REGISTRY_URL"
_SUFFIX: Final = ".avsc"
_IN_JSON: Final = ("{", "[", '"')
_SUBJECT: Final = re.compile(r"(?P<subject>\S.*?)\s+--version[\s=]\s*(?P<version>[1-9][0-9]{0,8})")
_VERSIONS_MAX: Final = 64
_FORMS: Final = (
    "inline JSON, a file <name>.avsc, or a version of a registry's subject: SUBJECT --version N"
)


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """How a registry is reached, should a schema have to be asked for.

    Attributes:
        url: What the option says, None if it was not given.
        config: The file with the settings, None if none is named.
    """

    url: str | None = None
    config: str | None = None

    @staticmethod
    def of(values: OptionValues) -> "RegistryAccess":
        """Return what the options say.

        Raises:
            InvalidRequestError: A user or a password stands in the address.
        """
        url = values.text("schemaRegistryUrl")
        if url is not None and any(_has_user(one) for one in url.split(",")):
            message = (
                "option schemaRegistryUrl: Spark shows options in its plans and logs, so no user "
                "or password may stand in it; put them into the file of schemaRegistryConfig "
                f"(basic.auth.user.info), or the address into ${_URL_IN_ENVIRONMENT}"
            )
            raise InvalidRequestError(message)
        return RegistryAccess(url, values.directory("schemaRegistryConfig"))


class NamedSchema(NamedTuple):
    """A schema that was named, and the id by which a registry has it; None where none said."""

    schema: AvroSchema
    registry_id: int | None


def schema_named(
    text: str,
    option: str,
    registry: RegistryAccess | None = None,
    environment: Mapping[str, str] = os.environ,
) -> NamedSchema:
    """Return the schema that the text of an option names.

    Args:
        text: What the option says.
        option: Its name, for errors.
        registry: How a registry is reached, if the text names a subject.
        environment: Where the registry's address may stand.

    Raises:
        InvalidRequestError: It names none, or what it names is no schema.
        UnavailableError: The registry does not answer.
    """
    text = text.strip()
    if text.startswith(_IN_JSON):
        try:
            return NamedSchema(AvroSchema.parse(text), None)
        except InvalidRequestError as error:
            raise _refused(option, error.message) from error
    if (subject := _SUBJECT.fullmatch(text)) is not None:
        settings = _settings(option, registry or RegistryAccess(), environment)
        directory = environment.get(APPLICATIONS_DIRECTORIES, "")
        return _version(settings, subject["subject"], int(subject["version"]), directory)
    if text.endswith(_SUFFIX):
        return NamedSchema(_in_file(path_here(option, text, "a file"), option), None)
    why = f"{shortened(text)!r} is not {_FORMS}"
    if text and not any(character.isspace() for character in text):
        why += f"; a subject needs a fixed version, as {text} --version 1"
    raise _refused(option, why)


@lru_cache(maxsize=_VERSIONS_MAX)
def _version(
    settings: RegistrySettings, subject: str, version: int, directories: str
) -> NamedSchema:
    """Return a version, which never changes: a query asks for it again with each batch.

    Raises:
        RegistryUnavailableError: The registry does not answer, and has answered nobody in this
            application.
    """
    cache = VersionCache(directories)
    try:
        answer = RegistryClient(settings).version(subject, version)
    except RegistryUnavailableError as error:
        cached = cache.of(settings.urls, subject, version)
        if cached is None:
            raise
        _LOG.warning("%s; using the schema that it returned before", error)
        return NamedSchema(AvroSchema.parse(cached.text), cached.registry_id)
    schema = AvroSchema.parse(answer.text, answer.references)
    cache.keep(settings.urls, subject, version, CachedVersion(schema.text, answer.id))
    return NamedSchema(schema, answer.id)


def _in_file(path: Path, option: str) -> AvroSchema:
    try:
        return schema_in_file(path)
    except InvalidRequestError as error:
        raise _refused(option, error.message) from error


def _settings(
    option: str, registry: RegistryAccess, environment: Mapping[str, str]
) -> RegistrySettings:
    settings = {} if registry.config is None else settings_in_file(Path(registry.config))
    url = registry.url or environment.get(_URL_IN_ENVIRONMENT)
    if url is not None:
        settings[_URL] = url
    if _URL not in settings:
        message = (
            f"no schema registry is named: give option schemaRegistryUrl, set {_URL_IN_ENVIRONMENT}"
            ", or name a file with [schema.registry] by option schemaRegistryConfig"
        )
        raise _refused(option, message)
    return RegistrySettings.parse(settings)


def _has_user(url: str) -> bool:
    try:
        return urlsplit(url.strip()).username is not None
    except ValueError:
        # What is no address at all is refused where it is used, if it has no user in it.
        return "@" in url


def _refused(option: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(f"option {option}: {why}")
