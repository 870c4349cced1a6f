"""The section `[schema]`: the registry, and what becomes of records of unknown schemas."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from connectors.registry import RegistrySettings, printable_registry_settings
from connectors.settings.stream_settings import Section
from storage_core import InvalidRequestError

_WHERE: Final = "schema.registry: "


def _check_registry(settings: object) -> object:
    """Refuse what the registry's client refuses."""
    if not isinstance(settings, Mapping):
        message = 'takes a table, as [schema.registry] url = "http://localhost:8081"'
        raise ValueError(message)  # noqa: TRY004 - the kind that pydantic takes
    nested = next((name for name, value in settings.items() if isinstance(value, Mapping)), None)
    if nested is not None:
        message = f'quote the name: "{nested}...." = ...'
        raise ValueError(message)
    try:
        RegistrySettings.parse(settings)
    except InvalidRequestError as error:
        raise ValueError(error.message.removeprefix(_WHERE)) from error
    return settings


class SchemaSettings(Section):
    """The schemas of Avro values.

    Attributes:
        registry: How the schema registry is reached, by the names that Confluent's clients have
            for it; empty for none.
        unknown: What becomes of a record whose schema the registry does not know: a `dead-letter`,
            or `quarantine` of its partition, a fault of the kind `refused`.
        unreachable: What becomes of it when the registry does not answer within `wait_s`:
            `quarantine` of its partition, a fault of the kind `unavailable`, or a `dead-letter`.
        wait_s: How long a partition waits for a registry that does not answer.
    """

    registry: Annotated[dict[str, str | int | float], BeforeValidator(_check_registry)] = Field(
        default_factory=dict
    )
    unknown: Literal["dead-letter", "quarantine"] = "dead-letter"
    unreachable: Literal["quarantine", "dead-letter"] = "quarantine"
    wait_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0

    def printable(self) -> dict[str, Any]:
        """Return what is in force, without secrets."""
        return {
            **self.model_dump(mode="json"),
            "registry": printable_registry_settings(self.registry),
        }
