"""What the text of a setting means, in a variable or behind `--set`.

JSON is what it says; a table or a list may be written as in the file too; anything else is text.
"""

import json
import tomllib
from collections.abc import Sequence
from typing import Final

from storage_core import InvalidRequestError

_TABLES: Final = ("kafka", "stream", "partitions")
# Those that take a table, a list or a word.
_MIXED: Final = ("on_fault", "topics")


def parsed_setting(keys: Sequence[str], text: str, where: str) -> object:
    """Return what a setting's text means; of topics, names with commas between as a list.

    Args:
        keys: Where the setting stands.
        text: What was given.
        where: The variable or the option, for what is said of it.

    Raises:
        InvalidRequestError: A table was meant, or is needed, and this is none.
    """
    if keys == ["topics"] and not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        found = json.loads(text)
    except ValueError as error:
        found = _written_as_in_the_file(keys, text, where, error)
    if len(keys) == 1 and keys[0] in _TABLES and not isinstance(found, dict):
        message = f'{where}: takes a table, as {{"name": "value"}}; or name one setting of it'
        raise InvalidRequestError(message)
    return found


def _written_as_in_the_file(
    keys: Sequence[str], text: str, where: str, error: ValueError
) -> object:
    is_compound = len(keys) == 1 and keys[0] in (*_TABLES, *_MIXED)
    if not is_compound or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        message = f"{where}: is no JSON: {error}"
        raise InvalidRequestError(message) from error
