"""Payloads of JSON: what asks bytes for a field of JSON is refused, and told how to ask.

DuckDB (2.0) writes bytes as a text with escapes before it takes that for JSON, which answers null
in each row. The type alone decides: what asks texts and JSON is planned as it was written.
"""

from typing import Any, Final

_TOLD: Final = (
    "->> asks bytes (BLOB), which are no JSON; decode() makes a text of them, as in "
    "decode(payload) ->> ''name''"
)
_MACRO: Final = f"""
CREATE OR REPLACE MACRO memory.main."->>"(given, path) AS
CASE WHEN typeof(given) = 'BLOB' THEN error('{_TOLD}') ELSE json_extract_string(given, path) END
"""


def refuse_json_of_bytes(connection: Any) -> None:  # noqa: ANN401 - DuckDB's
    """Let `->>` of bytes be an error of the query."""
    connection.execute(_MACRO)
