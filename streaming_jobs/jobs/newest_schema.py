"""The schema that a job reads by where nobody names one."""

from storage_core import StreamReader


def newest_schema(reader: StreamReader) -> str | None:
    """Return the text of a stream's schema with the highest id, of one id the last.

    None if no schema wrote any of its values.
    """
    newest = None
    for one in reader.schemas():
        if newest is None or one.registry_id >= newest.registry_id:
            newest = one
    return None if newest is None else newest.text
