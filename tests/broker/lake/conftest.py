"""Stores for the lakes of workers."""

from tests.lake.support.fixtures import bucket_store, s3_server, store

__all__ = ["bucket_store", "s3_server", "store"]
