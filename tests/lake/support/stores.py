"""Stores for tables: a directory, and a bucket of an S3 server that all processes of a run share.

store.target()               a place of its own for a table
store.target("a", timeout="1s")      the same place each time, with an option
store.paths(target)          all files below it, as the store itself lists them
store.write(target, "x", b"")        a file that is not written by delta-rs
store.archive(target, "x")           a file of a bucket that is listed, and not given any more
"""

import itertools
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import boto3

from connectors.devtools.fetch import locked
from connectors.devtools.process import Process, start_guarded
from storage_core.lake.target import LakeTarget, lake_target
from tests.lake.support import s3_server
from tests.waiting import await_that

KEYS: Final = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "tester's secret"}
REGION: Final = "us-east-1"
# A machine under load may take minutes to load a server.
_START_MAX_S: Final = 600.0
_numbers = itertools.count(1)


class Store(Protocol):
    """Where tables of one test lie."""

    def target(self, name: str = "table", **options: str) -> LakeTarget:
        """Return the place of that name."""
        ...

    def paths(self, target: LakeTarget) -> list[str]:
        """Return the paths of all files below a table."""
        ...

    def write(self, target: LakeTarget, path: str, data: bytes) -> None:
        """Write a file below a table."""
        ...

    def read(self, target: LakeTarget, path: str) -> bytes:
        """Read a file below a table."""
        ...

    def delete(self, target: LakeTarget, path: str) -> None:
        """Delete a file below a table."""
        ...


class DirectoryStore:
    """A directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def target(self, name: str = "table", **options: str) -> LakeTarget:
        return lake_target(str(self._directory / name), options)

    def paths(self, target: LakeTarget) -> list[str]:
        place = _directory_of(target)
        return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())

    def write(self, target: LakeTarget, path: str, data: bytes) -> None:
        file = _directory_of(target) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def read(self, target: LakeTarget, path: str) -> bytes:
        return (_directory_of(target) / path).read_bytes()

    def delete(self, target: LakeTarget, path: str) -> None:
        (_directory_of(target) / path).unlink()


class BucketStore:
    """A bucket of an S3 server."""

    def __init__(self, url: str, bucket: str | None = None) -> None:
        self.url = url
        # Two processes count alike, and share the server.
        self.bucket = bucket or f"bucket-{Process.current().pid}-{next(_numbers)}"
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=url,
            region_name=REGION,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        if bucket is None:
            self._client.create_bucket(Bucket=self.bucket)

    def through(self, url: str) -> "BucketStore":
        """Return the same bucket, by another address of its server."""
        return BucketStore(url, self.bucket)

    def target(self, name: str = "table", **options: str) -> LakeTarget:
        return lake_target(f"s3://{self.bucket}/{name}", {**self.options, **options})

    @property
    def options(self) -> dict[str, str]:
        """The options by which the server is reached."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            **KEYS,
        }

    def paths(self, target: LakeTarget) -> list[str]:
        prefix = _key(target, "")
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix
        )
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(key.removeprefix(prefix) for key in keys)

    def write(self, target: LakeTarget, path: str, data: bytes) -> None:
        self._client.put_object(Bucket=self.bucket, Key=_key(target, path), Body=data)

    def read(self, target: LakeTarget, path: str) -> bytes:
        answer = self._client.get_object(Bucket=self.bucket, Key=_key(target, path))
        data: bytes = answer["Body"].read()
        return data

    def delete(self, target: LakeTarget, path: str) -> None:
        self._client.delete_object(Bucket=self.bucket, Key=_key(target, path))

    def archive(self, target: LakeTarget, path: str) -> None:
        """Move a file to an archive, as a lifecycle rule does: it is listed, and is not given."""
        key = _key(target, path)
        source = {"Bucket": self.bucket, "Key": key}
        self._client.copy_object(
            Bucket=self.bucket, Key=key, CopySource=source, StorageClass="GLACIER"
        )


def shared_s3_server(place: Path, owner: Process) -> str:
    """Return the URL of the server of a directory, started by the first who asks.

    Args:
        place: The directory.
        owner: Whose end is the server's.
    """
    port = place / "port"
    with locked(place, "starting the S3 server", _START_MAX_S):
        if not port.exists():
            command = [sys.executable, str(Path(s3_server.__file__)), str(port)]
            log = place / "server.log"
            start_guarded(command, log=log, scratch=None, owner=owner)
            await_that(port.exists, lambda: log.read_text(encoding="utf-8"), _START_MAX_S)
    return f"http://127.0.0.1:{port.read_text(encoding='utf-8')}"


def _directory_of(target: LakeTarget) -> Path:
    assert target.directory is not None
    return target.directory


def _key(target: LakeTarget, path: str) -> str:
    return f"{target.uri.removeprefix('s3://').partition('/')[2]}/{path}"
