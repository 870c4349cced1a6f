"""Macros over DuckDB's JSON functions, which refuse bytes with a hint to use decode().

DuckDB (2.0) casts bytes to a string with escapes and parses that as JSON, so each row is null or
false. The macros depend on the type only: a query over strings or JSON is planned as before.
"""

from collections.abc import Mapping
from typing import Any, Final

# NOTE: `->` and `json_extract` are one function of DuckDB's (2.0), which a macro cannot replace.
_MESSAGE: Final = (
    "{} needs JSON and got bytes (BLOB); decode them to a string first, as in "
    "decode(payload) ->> ''name''"
)
# The numbers of their arguments, of which the JSON is the first.
_FUNCTIONS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("->>", "json_extract_string", "json_extract_path"), (2,)),
    **dict.fromkeys(("json_extract_path_text", "json_value", "json_exists"), (2,)),
    **dict.fromkeys(("json_contains", "from_json", "json_transform"), (2,)),
    **dict.fromkeys(("from_json_strict", "json_transform_strict"), (2,)),
    **dict.fromkeys(("json_keys", "json_type", "json_array_length"), (1, 2)),
    **dict.fromkeys(("json", "json_structure", "json_valid"), (1,)),
}


class JsonMacros:
    """Makes bytes an error in JSON functions."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - DuckDB's
        """Replace `->>` for all queries of the connection."""
        self._connection = connection
        self._refused: set[str] = set()
        self._refuse("->>")

    def refuse_bytes_in(self, query: str) -> None:
        """Replace the functions that a query may call; each takes half a millisecond."""
        text = query.lower()
        for name in _FUNCTIONS.keys() - self._refused:
            if name in text:
                self._refuse(name)

    def _refuse(self, name: str) -> None:
        forms = ", ".join(_macro(name, ("given", "other")[:count]) for count in _FUNCTIONS[name])
        self._connection.execute(f'CREATE OR REPLACE MACRO memory.main."{name}"{forms}')
        self._refused.add(name)


def _macro(name: str, parameters: tuple[str, ...]) -> str:
    listed = ", ".join(parameters)
    return (
        f"({listed}) AS CASE WHEN typeof(given) = 'BLOB' THEN error('{_MESSAGE.format(name)}') "
        f'ELSE system.main."{name}"({listed}) END'
    )
