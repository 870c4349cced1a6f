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
from urllib.parse import quote, unquote, urlsplit

from storage_core.errors import InvalidRequestError
from storage_core.platform.overriding import override

_EXAMPLES: Final = "name it as s3://BUCKET/PATH, gs://…, abfss://… or as an absolute path"
_SCHEMES: Final = ("file", "s3", "s3a", "gs", "az", "abfs", "abfss")
# What these have before an @ is a container; with others it would be a user and a password.
_WITH_CONTAINER: Final = ("abfs", "abfss")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
# NOTE: delta-rs (1.6) and its stores do not agree on what these mean in a path.
_FORBIDDEN: Final = re.compile(r"[%?#\\*]")
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
        parts = urlsplit(self.uri)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None


def lake_target(uri: str, options: Mapping[str, str] | None = None) -> LakeTarget:
    """Return the target that a URI or an absolute path names.

    Args:
        uri: The URI, or the path.
        options: Options of the store by name.

    Raises:
        InvalidRequestError: It is neither, or an option is no text.
    """
    return LakeTarget(_checked_uri(uri), _checked_options(options or {}))


def _checked_uri(uri: str) -> str:
    if not uri.strip() or _CONTROL.search(uri):
        message = f"{uri!r} is no place for a lake; {_EXAMPLES}"
        raise InvalidRequestError(message)
    if uri.startswith("/"):
        return _of_directory(uri)
    scheme, mark, rest = uri.partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in _SCHEMES:
        message = f"{_without_password(uri)!r} is no place for a lake; {_EXAMPLES}"
        raise InvalidRequestError(message)
    if scheme == "file":
        return _of_file_uri(uri, rest)
    return _of_store("s3" if scheme == "s3a" else scheme, rest)


def _of_file_uri(uri: str, rest: str) -> str:
    path = rest.removeprefix("localhost")
    if not path.startswith("/"):
        message = f"{uri!r} names a machine, or no absolute path; write file:///PATH"
        raise InvalidRequestError(message)
    return _of_directory(unquote(path))


def _of_directory(path: str) -> str:
    if ".." in path.split("/"):
        message = f"{path!r} has `..` in it; name the directory itself"
        raise InvalidRequestError(message)
    if _FORBIDDEN.search(path):
        message = f"{path!r} has one of % ? # * and \\ in it, which a lake's path cannot have"
        raise InvalidRequestError(message)
    names = [name for name in path.split("/") if name not in ("", ".")]
    if not names:
        message = f"{path!r} is no place for a lake: name a directory of its own"
        raise InvalidRequestError(message)
    return "file:///" + "/".join(quote(name) for name in names)


def _of_store(scheme: str, rest: str) -> str:
    bucket, _, path = rest.partition("/")
    readable = _without_password(f"{scheme}://{rest}")
    if "@" in bucket and scheme not in _WITH_CONTAINER:
        message = (
            f"{readable!r} has credentials in it; give them by the environment or by options, "
            f"and write {scheme}://BUCKET/PATH"
        )
        raise InvalidRequestError(message)
    names = [name for name in path.split("/") if name]
    if not bucket or any(name in (".", "..") for name in names) or _FORBIDDEN.search(rest):
        message = f"{readable!r} is no place for a lake; {_EXAMPLES}"
        raise InvalidRequestError(message)
    if not names:
        message = f"{readable!r} is a whole bucket; name a directory in it, one for each stream"
        raise InvalidRequestError(message)
    return f"{scheme}://{bucket}/{'/'.join(names)}"


def _without_password(uri: str) -> str:
    """Return a URI without what may be a password."""
    uri = re.sub(r"(?<=://)[^/@]*:[^/@]*@", "…@", uri)
    return re.sub(r"\?.*", "?…", uri)


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
