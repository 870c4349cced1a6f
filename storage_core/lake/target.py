"""Where a stream's table is: a URI, and the options by which its store is reached.

    file:///srv/lake/telemetry      a directory; an absolute path means the same
    s3://bucket/telemetry           S3, or what speaks its protocol
    gs://bucket/telemetry           Google Cloud Storage
    abfss://container@account.dfs.core.windows.net/telemetry    Azure

Options are those of delta-rs, by the names that it has for them (`AWS_ENDPOINT_URL`). They win over
the environment, which has the credentials as a rule. No value of an option is ever shown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from storage_core.catalog.lake_uri import checked_lake_uri, lake_directory
from storage_core.errors import InvalidRequestError
from storage_core.platform.overriding import override

_ENDPOINTS: Final = ("endpoint", "endpoint_url")


@dataclass(frozen=True, slots=True)
class LakeTarget:
    """Where a stream's table is; made by `lake_target`.

    Attributes:
        uri: The directory of the table.
        options: Options of the store.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)

    @override
    def __repr__(self) -> str:
        """Name the options, without their values."""
        return f"LakeTarget(uri={self.uri!r}, options={sorted(self.options)})"

    @property
    def directory(self) -> Path | None:
        """The directory of the table, if it is one of this machine."""
        return lake_directory(self.uri)

    def is_lake_of(self, uri: str | None) -> bool:
        """Tell whether it is the place that a stream's option `lake` names."""
        return uri is not None and checked_lake_uri(uri) == self.uri


def lake_target(uri: str, options: Mapping[str, str] | None = None) -> LakeTarget:
    """Return the target that a URI or an absolute path names.

    Args:
        uri: The URI, or the path.
        options: Options of the store by name.

    Raises:
        InvalidRequestError: It is neither, or an option is no text.
    """
    return LakeTarget(checked_lake_uri(uri), _checked_options(options or {}))


def _checked_options(options: Mapping[str, str]) -> dict[str, str]:
    checked: dict[str, str] = {}
    spelled: set[str] = set()
    for name, value in options.items():
        text: object = value
        if not isinstance(text, str):
            message = f"the option {name!r} of the lake is no text"
            raise InvalidRequestError(message)
        if name.lower() in spelled:
            message = f"the option {name!r} of the lake is there twice, spelled in two ways"
            raise InvalidRequestError(message)
        if name.lower().endswith(_ENDPOINTS) and not re.match(r"https?://[^/\s]+", text):
            message = f"the option {name!r} of the lake is no URL; write https://HOST:PORT"
            raise InvalidRequestError(message)
        spelled.add(name.lower())
        checked[name] = text
    return checked
