"""The schema that a job reads by: the one that was named, or the newest where nobody names one.

A job holds texts, so that a file which is changed or goes while it runs, or before it is started
again, changes nothing.
"""

from typing import Final

from storage_core import StreamReader
from storage_core.avro import newest_schema as newest_of
from streaming_jobs.common.schemas import schema_named

_FILE: Final = ".avsc"


def newest_schema(reader: StreamReader) -> str | None:
    """Return the text of a stream's newest schema; None if none wrote any of its values."""
    newest = newest_of(reader.schemas())
    return None if newest is None else newest.text


def text_of(named: str) -> str:
    """Return the text of a schema that is named as for the source's option `readerSchema`.

    Raises:
        InvalidRequestError: It names none, or what it names is no schema.
        UnavailableError: The registry does not answer.
    """
    return schema_named(named, "schema").schema.text


def text_of_file(named: str) -> str:
    """Return the text of a file's schema; a subject stays, which says what its registry's id is."""
    return text_of(named) if named.strip().endswith(_FILE) else named
