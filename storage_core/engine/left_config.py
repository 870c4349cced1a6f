"""What a reader may leave where a store has gone: rocksdict's own file, in directories of its name.

rocksdict writes that file beside a store at each opening, a reader's too, and makes the directories
that lack. A reader that opens a store while its directory is moved away makes them anew. Such a
directory holds nothing; whoever takes it for a store would tell of damage.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

CONFIG_FILE: Final = "rocksdict-config.json"


def has_store(shard: Path) -> bool:
    """Tell whether a shard's directory has a store, or something that was one.

    Raises:
        OSError: It cannot be listed.
    """
    try:
        return any(entry.name != CONFIG_FILE for entry in (shard / "db").iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove_left_config(shard: Path) -> None:
    """Remove what a reader has left of a shard that has gone; what has more in it stays."""
    with suppress(OSError):
        (shard / "db" / CONFIG_FILE).unlink(missing_ok=True)
        (shard / "db").rmdir()
    with suppress(OSError):
        shard.rmdir()
