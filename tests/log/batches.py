"""What a batch of a store writes, for tests that look into one."""

from collections.abc import Iterator

from storage_core.engine.key_value import Batch, Put
from storage_core.format.keys import FAMILY_DEFAULT


def puts_of(batch: Batch) -> Iterator[Put]:
    """Yield what is put, by itself and with many."""
    yield from batch.puts
    for keys, values in batch.puts_of_many:
        for key, value in zip(keys, values, strict=True):
            yield FAMILY_DEFAULT, key, value
