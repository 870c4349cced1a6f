"""Schemas that wrote rows are read from the store once a process, and looked for anew once."""

import itertools

from streaming_jobs.common.stream_location import StreamLocation
from streaming_jobs.source.executor.writer_schemas import WriterSchemas
from tests.unit.streaming_jobs.source.typed_lab import entry_of

INCARNATIONS = itertools.count()


class Store:
    """A stream's reader that tells schemas, and counts how often it is asked."""

    def __init__(self, *entries, later=()):
        self.entries = list(entries)
        self.later = list(later)
        self.lookups = self.refreshed = 0

    def schemas(self, registry_id):
        self.lookups += 1
        return tuple(one for one in self.entries if one.registry_id == registry_id)

    def refresh(self):
        self.refreshed += 1
        self.entries += self.later


LONG, TEXT = entry_of(1, '"long"'), entry_of(2, '"string"')


def writers_of(store, here=None):
    return WriterSchemas(here or place(), store.schemas, store.refresh)


def place():
    return StreamLocation("/root", "events", "r", str(next(INCARNATIONS)))


def test_schema_is_read_once_a_process():
    store, here = Store(LONG, TEXT), place()
    for _ in range(3):
        schema = writers_of(store, here).find(*LONG.identity)
        assert schema is not None
        assert schema.full_name == "long"
    assert (store.lookups, store.refreshed) == (1, 0)


def test_schema_of_another_stream_is_another_one():
    store = Store(LONG)
    for here in (place(), place()):
        assert writers_of(store, here).find(*LONG.identity) is not None
    assert store.lookups == 2


def test_schema_that_is_not_known_is_looked_for_anew_once():
    store = Store(LONG, later=[TEXT])
    writers = writers_of(store)
    schema = writers.find(*TEXT.identity)
    assert schema is not None
    assert schema.full_name == "string"
    assert store.refreshed == 1
    for _ in range(3):
        assert writers.find(3, b"x" * 16) is None
    assert store.refreshed == 2


def test_text_that_is_no_schema_is_not_known():
    wrong = type(LONG)(5, b"y" * 16, "no schema")
    assert writers_of(Store(wrong)).find(*wrong.identity) is None
