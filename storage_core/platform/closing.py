"""What is closed at the end of a `with`: whoever has `close` gets the rest.

class Pool(Closing):
@override
def close(self) -> None: ...

with Pool() as pool: ...        pool.close() follows, whatever happened
"""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Something that is closed once it is not wanted any more."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close it; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
