"""Payloads of JSON: what asks bytes for JSON is refused, and told how to ask.

DuckDB (2.0) writes bytes as a text with escapes before it takes that for JSON, which answers null
or false in each row. The type alone decides: what asks texts and JSON is planned as it was written.
"""

from collections.abc import Mapping
from typing import Any, Final

# NOTE: of `->` and `json_extract` DuckDB (2.0) has one function for both, and takes no macro in the
# place of it.
_TOLD: Final = (
    "{} asks bytes (BLOB), which are no JSON; decode() makes a text of them, as in "
    "decode(payload) ->> ''name''"
)
# By how many arguments they take, the JSON first.
_ASKING: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("->>", "json_extract_string", "json_extract_path"), (2,)),
    **dict.fromkeys(("json_extract_path_text", "json_value", "json_exists"), (2,)),
    **dict.fromkeys(("json_contains", "from_json", "json_transform"), (2,)),
    **dict.fromkeys(("from_json_strict", "json_transform_strict"), (2,)),
    **dict.fromkeys(("json_keys", "json_type", "json_array_length"), (1, 2)),
    **dict.fromkeys(("json", "json_structure", "json_valid"), (1,)),
}


class JsonOfBytes:
    """Lets functions of JSON be an error of the query where they are given bytes."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - DuckDB's
        """Refuse bytes before `->>`, whoever asks the connection."""
        self._connection = connection
        self._refused: set[str] = set()
        self._refuse("->>")

    def refuse_in(self, query: str) -> None:
        """Refuse bytes in the functions that a query may name; each takes half a millisecond."""
        text = query.lower()
        for name in _ASKING.keys() - self._refused:
            if name in text:
                self._refuse(name)

    def _refuse(self, name: str) -> None:
        forms = ", ".join(_form(name, ("given", "other")[:count]) for count in _ASKING[name])
        self._connection.execute(f'CREATE OR REPLACE MACRO memory.main."{name}"{forms}')
        self._refused.add(name)


def _form(name: str, parameters: tuple[str, ...]) -> str:
    listed = ", ".join(parameters)
    return (
        f"({listed}) AS CASE WHEN typeof(given) = 'BLOB' THEN error('{_TOLD.format(name)}') "
        f'ELSE system.main."{name}"({listed}) END'
    )
