"""The section `[lake]`: how the store of published parts is reached."""

import re
from collections.abc import Mapping, MutableMapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from connectors.settings.operations_settings import FileName
from connectors.settings.stream_settings import Section
from storage_core.lake import LAKE_OPTIONS_VARIABLE, hand_down_options, lake_options, option_texts

_MASK: Final = "***"
# What tells nothing that a key would be needed for; all else is masked.
_PLAIN: Final = re.compile(
    r"(region|allow_http|allow_invalid_certificates|virtual_hosted_style_request|unsigned_payload"
    r"|timeout|max_retries|retry_timeout|skip_signature|use_emulator|conditional_put)\Z"
)


def _check_options(options: object) -> object:
    if not isinstance(options, Mapping):
        message = 'takes a table, as [lake.options] AWS_REGION = "eu-central-1"'
        raise ValueError(message)  # noqa: TRY004 - the kind that pydantic takes
    return option_texts(options)


class LakeSettings(Section):
    """How streams that are published reach the store of their tables.

    Attributes:
        options: Options of the store, by delta-rs' names.
        credentials_file: A file with more of them, as TOML; read again for each publish. Without
            it, the one that SHARDLOG_LAKE_OPTIONS_FILE names.
        revoke_wait_seconds: How long a partition that is taken away is published first.
    """

    options: Annotated[dict[str, str], BeforeValidator(_check_options)] = Field(
        default_factory=dict
    )
    credentials_file: FileName | None = None
    revoke_wait_seconds: Annotated[float, Field(ge=0, le=600)] = 10.0

    def storage_options(self) -> dict[str, str]:
        """Return the options of the store, those of the file among them.

        Raises:
            InvalidRequestError: The file cannot be read, or is none of options.
        """
        return lake_options(self.options, self.credentials_file)

    def hand_down(self, environment: MutableMapping[str, str]) -> None:
        """Let all that this process does and starts reach the store as it does itself.

        It brings parts from the store that are not on this machine.
        """
        if self.credentials_file is not None:
            environment[LAKE_OPTIONS_VARIABLE] = str(self.credentials_file.absolute())
        hand_down_options(self.options, environment)

    def printable(self) -> dict[str, Any]:
        """Return what is in force, without secrets."""
        return {**self.model_dump(mode="json"), "options": printable_lake_options(self.options)}


def printable_lake_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by name for people to see; what might be a secret is masked."""
    return {
        name: value if _PLAIN.search(name.lower()) else _MASK
        for name, value in sorted(options.items())
    }
