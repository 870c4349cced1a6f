"""The options by which an object store is reached: of a file, of the environment, of a caller.

    AWS_ENDPOINT_URL = "http://127.0.0.1:9000"
    AWS_ALLOW_HTTP = true
    AWS_ACCESS_KEY_ID = "…"

The names are delta-rs' own. The file is TOML, a name and a value a line. It is read each time that
it is needed: what is put in its place counts from then on. From above to below count

    what is handed over                 as [lake.options] of a worker's settings
    the file that a command is told     --lake-options; a worker's credentials_file
    single options of the environment   SHARDLOG_LAKE__OPTIONS__AWS_REGION
    the file that it names              SHARDLOG_LAKE_OPTIONS_FILE, where no other file is told
    the environment by delta-rs' names  AWS_REGION, which delta-rs reads itself

A worker's settings have single options of the environment among what is handed over. It hands all
down, as single options and as the file that is named, to what reads in it and to the processes that
it starts. An option may be a key, so no value is ever repeated.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Final

from storage_core.errors import InvalidRequestError

LAKE_OPTIONS_VARIABLE: Final = "SHARDLOG_LAKE_OPTIONS_FILE"
# How the environment names single options, as that of a worker does.
_OPTION: Final = "SHARDLOG_LAKE__OPTIONS__"
_FILE_BYTES_MAX: Final = 2**20
_EXAMPLE: Final = 'write a name and a value a line, as AWS_REGION = "eu-central-1"'


def lake_options(
    options: Mapping[str, str] | None = None, file: Path | None = None
) -> dict[str, str]:
    """Return the options of a store, those handed over above all others.

    Args:
        options: Options by name.
        file: A file of them, above those that the environment has one by one; None for the one
            that the environment names, if it does, which is below these.

    Raises:
        InvalidRequestError: The file cannot be read, or is none of options.
    """
    single = options_of_environment()
    named = _named_by_the_environment()
    if file is not None:
        single += read_lake_options(file).items()
    elif named is not None:
        single = [*read_lake_options(named).items(), *single]
    return _each_once([*single, *(options or {}).items()])


def hand_down_options(options: Mapping[str, str], environment: MutableMapping[str, str]) -> None:
    """Let all that reads an environment have options, above those that it has and of a file."""
    handed = {name.lower() for name in options}
    for variable in list(environment):
        if variable.startswith(_OPTION) and variable.removeprefix(_OPTION).lower() in handed:
            # Of two spellings of one name it is not the later one that counts.
            del environment[variable]
    environment.update({f"{_OPTION}{name}": value for name, value in options.items()})


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


def options_of_environment() -> list[tuple[str, str]]:
    """Return the options that the environment has one by one, by name."""
    return sorted(
        (name.removeprefix(_OPTION), value)
        for name, value in os.environ.items()
        if name.startswith(_OPTION)
    )


def _named_by_the_environment() -> Path | None:
    named = os.environ.get(LAKE_OPTIONS_VARIABLE)
    return Path(named) if named else None
