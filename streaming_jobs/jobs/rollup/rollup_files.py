"""Roll-ups as Parquet: a file for each window of the level above, and one for all years.

    <directory>/level=hour/period=2026-03-29/rollups.parquet
    <directory>/level=day/period=2026-03/rollups.parquet
    <directory>/level=year/period=all/rollups.parquet
    <directory>/_rollups.json                               whose they are

A file is written whole, from what the streams keep, and takes the older one's place in one step: a
reader sees all of the one or all of the other, and one that is written again is the same. Names
that begin with `_` are no data to Spark, pyarrow and Hive.
"""

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from storage_core.platform.durable_file import file_errors, make_directories, sync_directory
from streaming_jobs.jobs.directory_claims import claim
from streaming_jobs.jobs.rollup.calendar import Calendar, Level
from streaming_jobs.jobs.rollup.rollup_record import records_of

FILE: Final = "rollups.parquet"
_DRAFTS: Final = "_drafts"
_NOTE: Final = "_rollups.json"


@dataclass(frozen=True, slots=True)
class RollupFiles:
    """A directory of roll-ups.

    Attributes:
        directory: Where it is; it is made if need be.
        calendar: Whose windows they are of.
        measure: The field that they measure.
    """

    directory: Path
    calendar: Calendar
    measure: str

    @property
    def note(self) -> Path:
        """The file that says whose it is."""
        return self.directory / _NOTE

    def claim(self, root: str, into: str) -> None:
        """Make the directory that of some roll-ups, and take away what a killed process left there.

        One writes at a time.

        Args:
            root: The id of the root whose they are.
            into: What their streams are called.

        Raises:
            InvalidRequestError: It holds something else, or other roll-ups.
        """
        whose = {"root": root, "streams": into, "zone": self.calendar.zone, "field": self.measure}
        claim(self.directory, _NOTE, whose, f"directory {self.directory}")
        shutil.rmtree(self.directory / _DRAFTS, ignore_errors=True)

    def write(self, level: Level, period: str, rollups: pa.Table) -> None:
        """Let a period's file have these roll-ups, durably.

        Raises:
            UnavailableError: The disk refuses.
        """
        records = records_of(rollups, level, self.calendar, self.measure)
        # The directory's name says it.
        records = records.drop_columns(["level"])
        place = self.directory / f"level={level}" / f"period={period}"
        draft = self.directory / _DRAFTS / f"{secrets.token_hex(8)}.parquet"
        with file_errors(place, "writing roll-ups"):
            for folder in (draft.parent, place):
                make_directories(folder)
            with draft.open("wb") as file:
                pq.write_table(records, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(place / FILE)
            sync_directory(place)
