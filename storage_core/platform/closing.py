"""What is closed at the end of a `with`.

    with Pool() as pool:
        ...

closes the pool, whatever happened, where `Pool` is a `Closing` and has `close`.
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
