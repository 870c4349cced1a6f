"""What a registry holds: schemas, what they refer to, how far a subject's must be compatible."""

from dataclasses import dataclass
from typing import Final, Literal

# What schemas are written in, as registries call it.
SchemaKind = Literal["AVRO", "JSON"]
_TRANSITIVE: Final = "_TRANSITIVE"


@dataclass(frozen=True, slots=True)
class Reference:
    """Another registered schema that a text refers to.

    Attributes:
        name: By which the text refers to it, its full name in Avro.
        subject: Where it is registered.
        version: As which version of its subject.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as a registry has it.

    Attributes:
        id: Its number in this registry; another registry has another number for it.
        subject: Where it was found; None where it was asked for by id.
        version: As which version of that subject; None as above.
        text: The schema, as JSON; what it refers to is not in it.
        references: The texts of what it refers to, also indirectly; each behind those it needs.
        referred: What it refers to itself, by name.
    """

    id: int
    subject: str | None
    version: int | None
    text: str
    references: tuple[str, ...] = ()
    referred: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Compatibility:
    """How far the versions of a subject must understand each other.

    Attributes:
        level: As the registry calls it, such as BACKWARD or FULL_TRANSITIVE.
        is_own: Whether it was set for the subject, rather than for the whole registry.
    """

    level: str
    is_own: bool

    @property
    def is_transitive(self) -> bool:
        """Whether a new version is held against all before it, not only the last."""
        return self.level.endswith(_TRANSITIVE)
