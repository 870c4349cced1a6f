"""A file of options by which an object store is reached: TOML, a name and a value a line.

    AWS_ENDPOINT_URL = "http://127.0.0.1:9000"
    AWS_ALLOW_HTTP = true
    AWS_ACCESS_KEY_ID = "…"

The names are delta-rs' own, as its environment has them. A command is told the file, or the
environment names it: SHARDLOG_LAKE_OPTIONS_FILE. It may hold keys, so no value of it is ever
repeated. It is read each time that it is needed: what is put in its place counts from then on.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from storage_core.errors import InvalidRequestError

LAKE_OPTIONS_VARIABLE: Final = "SHARDLOG_LAKE_OPTIONS_FILE"
_FILE_BYTES_MAX: Final = 2**20
_EXAMPLE: Final = 'write a name and a value a line, as AWS_REGION = "eu-central-1"'


def lake_options(
    options: Mapping[str, str] | None = None, file: Path | None = None
) -> dict[str, str]:
    """Return the options of a store: those handed over, above those of a file.

    Args:
        options: Options by name.
        file: The file; None for the one that the environment names, if it does.

    Raises:
        InvalidRequestError: The file cannot be read, or is none of options.
    """
    named = file or _named_by_the_environment()
    of_file = {} if named is None else read_lake_options(named)
    return _each_once([*of_file.items(), *(options or {}).items()])


def read_lake_options(file: Path) -> dict[str, str]:
    """Return the options of a file.

    Raises:
        InvalidRequestError: It cannot be read, or is none of options.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"the file of lake options cannot be read: {reason}"
        raise InvalidRequestError(message, path=file) from error
    if len(content) > _FILE_BYTES_MAX:
        message = f"the file of lake options is larger than {_FILE_BYTES_MAX:,} bytes"
        raise InvalidRequestError(message, path=file)
    try:
        options = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        # What the parser says may repeat a key.
        message = f"the file of lake options is no TOML; {_EXAMPLE}"
        raise InvalidRequestError(message, path=file) from None
    try:
        return option_texts(options)
    except ValueError as error:
        message = f"the file of lake options: {error}"
        raise InvalidRequestError(message, path=file) from None


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Return options as the texts that a store takes.

    Raises:
        ValueError: A value is neither text, number nor truth; it is not repeated.
    """
    return _each_once([(name, _text(name, value)) for name, value in options.items()])


def _each_once(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return options by name, the last of each; stores know no difference of case."""
    spelled = {name.lower(): (name, value) for name, value in options}
    return dict(spelled.values())


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    message = f"{name} is neither text, a number, true nor false; {_EXAMPLE}"
    raise ValueError(message)


def _named_by_the_environment() -> Path | None:
    named = os.environ.get(LAKE_OPTIONS_VARIABLE)
    return Path(named) if named else None
