"""Tables that stay loaded between the calls of a process that publishes again and again.

To load one reads a dozen files of its log; to look whether it is as it was, one or two. One thread
at a time.
"""

from collections import OrderedDict
from contextlib import suppress
from typing import Final

from storage_core.errors import ShardlogError
from storage_core.lake.app_id import LakeStream
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget

_TABLES_MAX: Final = 64


class OpenTables:
    """The tables of the last calls."""

    def __init__(self) -> None:
        """Have none."""
        self._tables: OrderedDict[object, LakeTable] = OrderedDict()

    def take(self, target: LakeTarget, stream: LakeStream) -> LakeTable | None:
        """Return the table of a stream; None where it must be opened.

        It is not here any more then: whoever fails with it leaves nothing to the next call.
        """
        table = self._tables.pop(_key(target, stream), None)
        if table is None:
            return None
        # IMPORTANT: somebody may have moved it away meanwhile, and begun another in its place.
        with suppress(ShardlogError):
            table.renew()
            return table
        return None

    def put_back(self, target: LakeTarget, stream: LakeStream, table: LakeTable) -> None:
        """Have the table for the next call."""
        self._tables[_key(target, stream)] = table
        while len(self._tables) > _TABLES_MAX:
            self._tables.popitem(last=False)


def _key(target: LakeTarget, stream: LakeStream) -> object:
    return target.uri, tuple(sorted(target.options.items())), stream
