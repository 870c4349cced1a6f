"""`override` of `typing_extensions`, where that package may not be there.

Only type checkers need it, and no extra brings it; Python has one of its own from 3.12 on.
"""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override
else:
    Method = TypeVar("Method")

    def override(method: Method) -> Method:
        """Return the method; a type checker compares it with the one it overrides."""
        return method


__all__ = ["override"]
