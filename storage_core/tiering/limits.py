"""How much one step of tiering takes at most: what bounds its memory, its time, and its parts."""

from typing import Final

# Rows of the log or of parts that one step reads: how many, and what they take in memory.
STEP_ROWS_MAX: Final = 1_000_000
STEP_BYTES_MAX: Final = 256 * 2**20
# Blocks that one step deletes.
STEP_BLOCKS_MAX: Final = 2**16
# A part that compaction builds: its file, and the windows that its rows reach over. It expires once
# all of them have.
COMPACTED_BYTES_MAX: Final = 64 * 2**20
COMPACTED_WINDOWS_MAX: Final = 2
# More neighbours of a level than these become one part of the next level.
NEIGHBOURS_MAX: Final = 4
