"""Parts of which a table has nothing, though they have visible rows: told by names of files."""

from collections.abc import Iterable, Iterator, Mapping

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry, ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.image_names import ImageName
from storage_core.lake.maintenance.addresses import Addresses, visible_addresses
from storage_core.lake.maintenance.names import missing_part
from storage_core.lake.maintenance.report import LakeProblem
from storage_core.lake.publishing.mirror import parts_without_files
from storage_core.parts.snapshot import Part

# A problem, the entry of a part whose file is not here, or what could not be compared.
Outcome = LakeProblem | PartEntry | str


class MissingParts:
    """The parts of a shard that no file of its table is of."""

    def __init__(
        self, parts: ShardParts, names: Mapping[str, ImageName], bounds: AddressRange
    ) -> None:
        """Look at names alone.

        Args:
            parts: The part list.
            names: What the names of the table's files say, by path.
            bounds: The addresses that both the table and the parts are to have.
        """
        self._parts = parts
        self._bounds = bounds
        self._without = parts_without_files(parts, names, bounds.start, bounds.end)

    def among(self, listed: Iterable[Part]) -> Iterator[Outcome]:
        """Yield those among some parts that have visible rows."""
        for part in listed:
            if part.entry not in self._without:
                continue
            visible = self.visible(part)
            if isinstance(visible, PartEntry | str):
                yield visible
            elif len(visible):
                yield missing_part(part.shard, part.entry, len(visible), self._bounds.end)

    def visible(self, part: Part) -> Addresses | PartEntry | str:
        """Return the visible addresses of a part that the table is to have.

        Of a part whose file is not here its entry, and of a damaged one why it cannot be compared.
        """
        try:
            visible = visible_addresses(part, self._parts)
        except CorruptionError as error:
            return f"shard {part.shard}: {part.entry.file_name} cannot be read: {error.message}"
        except FileNotFoundError:
            return part.entry
        return visible[(visible >= self._bounds.start) & (visible < self._bounds.end)]
