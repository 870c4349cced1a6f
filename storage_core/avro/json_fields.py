"""The fields of a flat record, as JSON has them."""

from dataclasses import dataclass
from typing import Literal

JsonKind = Literal["int", "float", "string", "bool", "uuid", "timestamp", "date", "enum"]


@dataclass(frozen=True, slots=True)
class JsonField:
    """What values a field has.

    Attributes:
        name: Its name.
        kind: What its values are.
        is_nullable: Whether it may be null, or left out.
        values: Those of an enum.
    """

    name: str
    kind: JsonKind
    is_nullable: bool = False
    values: tuple[str, ...] = ()
