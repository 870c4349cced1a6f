"""The section `[dead_letters]`: what becomes of records that cannot be parsed."""

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from connectors.settings.stream_settings import Section
from storage_core import is_stream_name

DeadLetterPolicyName = Literal["keep", "forward", "stop"]

# Stands for the topic that a dead letter comes from.
_PLACE: Final = "{topic}"
_PROBE: Final = "t"


class DeadLetterSettings(Section):
    """What becomes of dead letters.

    Attributes:
        policy: `keep` them in the store, `forward` them to a topic, or `stop` at the first.
        topic: Where they are forwarded to; `{topic}` in it stands for the topic they come from.
        records_max: How many a shard may keep; 0 for any number. Beyond it the oldest go
            (`keep`), or the worker waits for the topic and stops where it takes none (`forward`).
    """

    policy: DeadLetterPolicyName = "keep"
    topic: str | None = None
    records_max: Annotated[int, Field(ge=0)] = 1_000_000

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.topic is None:
            if self.policy == "forward":
                message = 'topic: name where to forward to, as "orders.dlq" or "{topic}.dlq"'
                raise ValueError(message)
            return self
        if not is_stream_name(self.topic_for(_PROBE)):
            message = (
                f"topic: {self.topic!r} is not a topic name; {{topic}} is its only placeholder"
            )
            raise ValueError(message)
        return self

    def topic_for(self, origin: str) -> str:
        """Return where the dead letters of a topic are forwarded to."""
        return (self.topic or "").replace(_PLACE, origin)

    @property
    def own_topics(self) -> str | None:
        """A regular expression for the topics of dead letters; None where one name says it.

        A pattern that takes topics leaves these out, so that no dead letter comes back.
        """
        if self.topic is None or _PLACE not in self.topic:
            return None
        # A name has letters, digits, dots, dashes and underscores.
        parts = (part.replace(".", "[.]") for part in self.topic.split(_PLACE))
        return f"^{'.*'.join(parts)}$"

    def refuse_circle(self, topics: Iterable[str], pattern: str | None) -> None:
        """Refuse a topic that the worker itself consumes: its dead letters would come back.

        Raises:
            ValueError: It does.
        """
        if self.topic is None:
            return
        if pattern is not None and _PLACE in self.topic:
            if not any(self.topic.split(_PLACE)):
                message = (
                    f"dead_letters.topic: {self.topic!r} can be any topic, also a consumed one; "
                    "add something to the name, as {topic}.dlq"
                )
                raise ValueError(message)
            return
        consumed = set(topics)
        is_taken = bool(consumed & {self.topic_for(one) for one in consumed})
        if is_taken or (pattern is not None and re.search(pattern, self.topic)):
            message = (
                f"dead_letters.topic: {self.topic!r} is consumed by this worker, so that its dead "
                "dead letters would come back to it; name another, or leave it out of the topics"
            )
            raise ValueError(message)
