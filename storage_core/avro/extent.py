"""How large a schema is once each type is written out where it is used.

Few lines can stand for very many types: records each of which holds the one before it twice. Nobody
could read, pass over or show what such a schema says.
"""

from typing import Final

from storage_core.avro.alone import NESTING_MAX
from storage_core.avro.avro_types import Array, AvroType, Map, Record, Union
from storage_core.errors import InvalidRequestError

_TYPES_MAX: Final = 100_000


def check_extent(root: AvroType) -> None:
    """Refuse a schema of too many types, or with too many in each other.

    Raises:
        InvalidRequestError: It is one.
    """
    _Extent().of(root, 0)


class _Extent:
    """What is known of records: how deep they are, and how many types they are."""

    def __init__(self) -> None:
        self._cached: dict[int, tuple[int, int]] = {}

    def of(self, what: AvroType, nesting: int) -> tuple[int, int]:
        """Return how many types stand in each other below a type, and how many they are."""
        extent = self._cached.get(id(what))
        if extent is None:
            if nesting > NESTING_MAX:
                raise _too_deep()
            # Of one that holds itself, what is inside it.
            self._cached[id(what)] = 0, 1
            parts = [self.of(each, nesting + 1) for each in _parts(what)]
            depth = max((each for each, _ in parts), default=-1) + 1
            extent = self._cached[id(what)] = depth, 1 + sum(each for _, each in parts)
        depth, count = extent
        if nesting + depth > NESTING_MAX:
            raise _too_deep()
        if count > _TYPES_MAX:
            message = f"a schema of more than {_TYPES_MAX} types, each counted where it is used"
            raise InvalidRequestError(message)
        return extent


def _parts(what: AvroType) -> list[AvroType]:
    if isinstance(what, Record):
        return [each.type for each in what.fields]
    if isinstance(what, Union):
        return list(what.branches)
    if isinstance(what, Array):
        return [what.items]
    return [what.values] if isinstance(what, Map) else []


def _too_deep() -> InvalidRequestError:
    return InvalidRequestError(f"a schema of more than {NESTING_MAX} types in each other")
