"""The schema that a job reads by where nobody names one."""

from storage_core import StreamReader
from storage_core.fields import newest_schema as newest_of


def newest_schema(reader: StreamReader) -> str | None:
    """Return the text of a stream's newest schema; None if none wrote any of its values."""
    newest = newest_of(reader.schemas())
    return None if newest is None else newest.text
