"""Streams of a root that are no event types: QUERY asks them, and STORE does not take them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OtherStream:
    """A stream that is no event type.

    Attributes:
        name: Its name.
        topic: The topic that it is a copy of; None for any other stream.
        fields: What a query calls its fields, and their types; None where they cannot be read.
    """

    name: str
    topic: str | None
    fields: Mapping[str, str] | None = None

    @property
    def refused(self) -> str:
        """What is said of it to whoever takes it for an event type."""
        kind = "a stream" if self.topic is None else f"a copy of topic {self.topic}"
        return f"{self.name} is {kind}, no event type: STORE does not take it"
