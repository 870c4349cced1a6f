"""Stores for tables: a directory, and a bucket of an S3 server."""

from tests.lake.support.fixtures import bucket_store, s3_server, store

__all__ = ["bucket_store", "s3_server", "store"]
