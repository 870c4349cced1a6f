"""The vocabulary of state: a store with a type of state, whose rows are put, deleted and asked for.

bench.put("ann", "doc-1", 5)         the message of the answer
bench.delete("ann", "doc-1")
bench.rows("FOR ann")                context, row id and value of each row that is there
"""

from pathlib import Path
from typing import Any, Final

from storage_core import StreamReader
from tests.events.store.bench import StoreBench, rows_of
from typed_events.answer import Answer, Status

TTL_S: Final = 1800
STATE: Final = 'DEFINE cursor FIELDS { x: "int | null" } AS STATE TTL 30m'
Rows = list[tuple[str, str, int]]


class StateBench(StoreBench):
    """A store with a type of state, `cursor`."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.well(STATE)

    def well(self, text: str) -> Answer:
        """Do a command, which must go well."""
        answer = self.do(text)
        assert answer.status is Status.OK, answer.message
        return answer

    def refused(self, text: str) -> str:
        """Do a command, which must be refused; return its message."""
        answer = self.do(text)
        assert answer.status is Status.BAD_REQUEST, answer.message
        return answer.message

    def put(self, context: str, row: str, x: int, clauses: str = "") -> str:
        """Store a row; return the message."""
        return self.well(put_text(context, row, x, clauses)).message

    def delete(self, context: str, row: str, clauses: str = "") -> str:
        """Delete a row; return the message."""
        return self.well(delete_text(context, row, clauses)).message

    def rows(self, clauses: str = "") -> Rows:
        """Return the rows that are there, in the order of their positions."""
        answer = self.well(f"QUERY cursor {clauses}")
        return [(row["context_id"], row["row"], row["x"]) for row in rows_of(answer)]

    def start_and_end(self, name: str) -> tuple[int, int]:
        """Return the first address that is left of a type's only shard, and the next one."""
        with StreamReader.open(self.root, name) as reader:
            return reader.start(0), reader.committed()[0]

    def figure(self, figure: str) -> Any:
        """Return a figure of the rows that are there."""
        (row,) = rows_of(self.well(f"QUERY cursor {figure}"))
        (value,) = row.values()
        return value


def put_text(context: str, row: str, x: int, clauses: str = "") -> str:
    """Return the text of a STORE of a row."""
    return f'STORE cursor FOR "{context}" ROW "{row}" PAYLOAD {{"x": {x}}} {clauses}'.strip()


def delete_text(context: str, row: str, clauses: str = "") -> str:
    """Return the text of a DELETE."""
    return f'DELETE cursor FOR "{context}" ROW "{row}" {clauses}'.strip()
