"""Stores for the lakes of workers."""

from collections.abc import Iterator

import pytest

from tests.lake.support.fixtures import bucket_store, few_rounds, s3_server, store
from tests.lake.support.proxy import S3Proxy

__all__ = ["bucket_store", "few_rounds", "s3_server", "store"]


@pytest.fixture
def proxy(s3_server: str) -> Iterator[S3Proxy]:
    """What stands before the S3 server."""
    with S3Proxy(s3_server) as proxy:
        yield proxy
