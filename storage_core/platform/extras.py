"""Which extra of the package brings a library, so that who lacks one is told how to get it."""

from collections.abc import Mapping
from typing import Final

from storage_core.errors import InvalidRequestError

EXTRA_OF: Final[Mapping[str, str]] = {
    "confluent_kafka": "kafka",
    "deltalake": "lake",
    "duckdb": "sql",
    "fastavro": "avro",
    "fsspec": "sql",
    "lark": "events",
    "pandas": "spark",
    "pydantic": "cli",
    "pyspark": "spark",
    "pytz": "sql",
    "rich": "cli",
    "rocksdict": "store",
    "structlog": "kafka",
    "typer": "cli",
    "wsproto": "events",
    "xxhash": "avro",
}


def how_to_install(library: str, extra: str | None = None) -> str | None:
    """Return what to say of a library that is missing; None if no extra brings it.

    Args:
        library: The library.
        extra: One that brings it and more that is needed; None for the least that does.
    """
    extra = extra or EXTRA_OF.get(library)
    return None if extra is None else f"{library} is missing: pip install 'shardlog[{extra}]'"


def missing(library: str, needed_by: str) -> InvalidRequestError:
    """Return the error of a call that needs a library which is not installed."""
    return InvalidRequestError(f"{needed_by}: {how_to_install(library)}")
