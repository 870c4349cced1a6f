"""REMEMBER, SHOW and FORGET over a root."""

import secrets
from pathlib import Path
from typing import Final

from storage_core import Clock
from storage_core.platform.name_suggestions import listed_names
from typed_events.answer import Answer
from typed_events.errors import CommandError
from typed_events.language.commands import Forget, Query, Remember, Show
from typed_events.language.parse import parse
from typed_events.query.queries import Queries
from typed_events.remembered.frame_list import FrameDirectory
from typed_events.remembered.names import RememberedNames, RememberedQuery
from typed_events.remembered.options import KeepOptions
from typed_events.remembered.showing import Showing

_REFUSAL: Final = "REMEMBER keeps events, in the order of their positions"


class RememberedQueries:
    """What is remembered below a root. Any thread."""

    def __init__(self, root: Path, queries: Queries, keep: KeepOptions, clock: Clock) -> None:
        """Read nothing yet."""
        self._names = RememberedNames(root)
        self._queries = queries
        self._keep = keep
        self._clock = clock

    def remember(self, command: Remember) -> Answer:
        """Answer a REMEMBER: the query is checked, and evaluated by the first SHOW.

        Raises:
            CommandError: The query is no selection of events, or another has the name.
            NotFoundError: There is no such type.
        """
        _refuse_others(command.query)
        self._queries.located(command.query, lambda _, __: {}).batches.close()
        query = RememberedQuery(command.name, command.text, secrets.token_hex(16))
        if self._names.add(query):
            return Answer(message=f"remembered: SHOW {command.name} answers it")
        return Answer(message=f"{command.name} is this query already")

    def show(self, command: Show) -> Answer:
        """Answer a SHOW.

        Raises:
            CommandError: There is no name.
            NotFoundError: Nothing is remembered by that name, or its type is gone.
        """
        if command.name is None:
            message = f"SHOW needs a name: there are {listed_names(self._names.names())}"
            raise CommandError(message)
        remembered = self._names.find(command.name)
        query = parse(remembered.text)
        assert isinstance(query, Query)
        directory = FrameDirectory(self._names.frames_of(remembered))
        return Showing(directory, self._queries, self._keep, self._clock.now_ns()).answer(query)

    def forget(self, command: Forget) -> Answer:
        """Answer a FORGET; raises as `show` does."""
        self._names.remove(command.name)
        return Answer(message=f"forgot {command.name}")


def _refuse_others(query: Query) -> None:
    """Refuse what is not answered by the rows of frames alone."""
    refused = {
        "figures": query.aggregates or query.by or query.per,
        "ORDER BY": query.order,
        "LIMIT": query.limit is not None or query.offset,
        "FOLLOWED BY and PRECEDED BY": query.sequence,
    }
    names = [name for name, is_there in refused.items() if is_there]
    if names:
        message = f"{_REFUSAL}: leave out {', '.join(names)}"
        raise CommandError(message)
