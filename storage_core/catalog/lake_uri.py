"""The place of a stream's table, as an option of the stream names it.

    file:///srv/lake/telemetry      a directory; an absolute path means the same
    s3://bucket/telemetry           S3, or what speaks its protocol
    gs://bucket/telemetry           Google Cloud Storage
    abfss://container@account.dfs.core.windows.net/telemetry    Azure

Pure; whether anything is there, and may be written, is asked by who publishes. The option lies in a
file of the stream and is printed, so nothing secret may be in it.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from storage_core.errors import InvalidRequestError

_EXAMPLES: Final = "name it as s3://BUCKET/PATH, gs://…, abfss://… or as an absolute path"
_SCHEMES: Final = ("file", "s3", "s3a", "gs", "az", "abfs", "abfss")
# What these have before an @ is a container; with others it would be a user and a password.
_WITH_CONTAINER: Final = ("abfs", "abfss")
_LENGTH_MAX: Final = 2048
# NOTE: delta-rs (1.6) and its stores do not agree on what these mean in a path.
_FORBIDDEN: Final = re.compile(r"[%?#\\*]")
_BRACES: Final = frozenset("{}")


def checked_lake_uri(uri: object) -> str:
    """Return the URI that a URI or an absolute path means, in its one spelling.

    Raises:
        InvalidRequestError: It names no place for a table, or has a secret in it.
    """
    if not isinstance(uri, str) or not uri.strip() or not uri.isprintable():
        message = f"{uri!r} is no place for a lake; {_EXAMPLES}"
        raise InvalidRequestError(message)
    if len(uri) > _LENGTH_MAX:
        message = f"the place of a lake has at most {_LENGTH_MAX:,} letters, not {len(uri):,}"
        raise InvalidRequestError(message)
    if uri.startswith("/"):
        return _of_directory(uri)
    scheme, separator, rest = uri.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _SCHEMES:
        message = f"{_without_secrets(uri)!r} is no place for a lake; {_EXAMPLES}"
        raise InvalidRequestError(message)
    if scheme == "file":
        return _of_file_uri(uri, rest)
    return _of_store("s3" if scheme == "s3a" else scheme, rest)


def lake_directory(uri: str) -> Path | None:
    """Return the directory of this machine that a checked URI names, if it names one."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def refuse_lake_pattern(uri: str | None) -> None:
    """Refuse a pattern of places: for one stream it would be taken as it is spelled.

    Tables that lie at such a place already are read and published as before.

    Raises:
        InvalidRequestError: It has braces.
    """
    if uri is not None and not _BRACES.isdisjoint(uri):
        message = (
            f"lake: {_without_secrets(uri)!r} has braces: `{{topic}}` is for `[stream] lake` of a "
            "worker, which makes a table for each topic; name the place of this stream's table"
        )
        raise InvalidRequestError(message)


def refuse_lake_within(root: Path, uri: str | None) -> None:
    """Refuse a place below a root: what lies there is its streams', and goes with them.

    Raises:
        InvalidRequestError: It is one.
    """
    directory = None if uri is None else lake_directory(checked_lake_uri(uri))
    if directory is not None and directory.resolve().is_relative_to(root.resolve()):
        message = f"lake: {uri!r} lies in the root; name a directory beside it"
        raise InvalidRequestError(message, path=root)


def _of_file_uri(uri: str, rest: str) -> str:
    path = rest.removeprefix("localhost")
    if not path.startswith("/"):
        message = (
            f"{_without_secrets(uri)!r} names a machine, or no absolute path; write file:///PATH"
        )
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
    shown_uri = _without_secrets(f"{scheme}://{rest}")
    before_at = bucket.rpartition("@")[0]
    if ":" in before_at or (before_at and scheme not in _WITH_CONTAINER):
        message = (
            f"{shown_uri!r} has credentials in it; give them by the environment or by options, "
            f"and write {scheme}://BUCKET/PATH"
        )
        raise InvalidRequestError(message)
    names = [name for name in path.split("/") if name]
    is_odd = any(name in (".", "..") for name in names) or _FORBIDDEN.search(rest) is not None
    is_odd = is_odd or " " in rest
    if not bucket or is_odd or (scheme in _WITH_CONTAINER and not before_at):
        message = f"{shown_uri!r} is no place for a lake; {_EXAMPLES}"
        raise InvalidRequestError(message)
    if not names:
        message = f"{shown_uri!r} is a whole bucket; name a directory in it, one for each stream"
        raise InvalidRequestError(message)
    return f"{scheme}://{bucket}/{'/'.join(names)}"


def _without_secrets(uri: str) -> str:
    """Return a URI without what may be a password."""
    return re.sub(r"[?#].*", "?…", re.sub(r"(?<=://)[^/@]*@", "…@", uri))
