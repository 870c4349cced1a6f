"""What one call brought from Kafka: records in columns, and the faults between them.

    [(records, fault), (records, fault), (records, None)]

In their order: each fault stands behind the records that came before it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.kafka.terms import Partition
from connectors.kafka.translate import PartitionFault


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of some partitions in columns, those of a partition side by side and in order.

    What lies in no run is none of its records.

    Attributes:
        runs: Where the records of each partition lie, start and end; one at least.
        epochs: The leader epoch of the last record of each run.
        offsets: The offset of each record.
        timestamps: Milliseconds; -1 where a record has none.
        kinds: Kinds of timestamps in librdkafka's numbers: 0 none, 1 made, 2 appended.
        keys: Null where a record has none; a null takes no bytes.
        values: As keys.
        headers: Of `HEADERS_TYPE`, repeats and null values kept; null where a record has none.
            None where no record has any.
        misnamed: Which records have headers that cannot be read, for a name is no UTF-8; those
            are null. None where every record's can be read.
    """

    runs: Mapping[Partition, tuple[int, int]]
    epochs: Mapping[Partition, int | None]
    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    keys: pa.BinaryArray
    values: pa.BinaryArray
    headers: "pa.Array[Any] | None" = None
    misnamed: npt.NDArray[np.bool_] | None = None

    @property
    def count(self) -> int:
        """How many records they are."""
        return sum(end - start for start, end in self.runs.values())

    def without(self, partitions: Collection[Partition]) -> "Fetched":
        """Return the records that belong to none of the partitions; nothing is copied."""
        runs = {at: run for at, run in self.runs.items() if at not in partitions}
        return replace(self, runs=runs)

    def only(self, partitions: Collection[Partition]) -> "Fetched":
        """Return the records that belong to some partitions by themselves, copied."""
        runs: dict[Partition, tuple[int, int]] = {}
        places, first = [], 0
        for partition, (start, end) in self.runs.items():
            if partition in partitions:
                runs[partition] = first, first + end - start
                places.append(np.arange(start, end))
                first += end - start
        chosen = np.concatenate(places) if places else np.empty(0, np.int64)
        taken: Any = pa.array(chosen)
        columns: Any = self
        return replace(
            self,
            runs=runs,
            offsets=self.offsets[chosen],
            timestamps=self.timestamps[chosen],
            kinds=self.kinds[chosen],
            keys=columns.keys.take(taken),
            values=columns.values.take(taken),
            headers=None if columns.headers is None else columns.headers.take(taken),
            misnamed=None if self.misnamed is None else self.misnamed[chosen],
        )


# Each with the fault that follows it, if one does; one without records only stands before a fault.
FetchResults = list[tuple[Fetched, PartitionFault | None]]
