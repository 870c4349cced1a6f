"""Where the dev stack keeps what it fetched and what it runs.

$SHARDLOG_CACHE or $XDG_CACHE_HOME/shardlog or ~/.cache/shardlog      jars/<name-version>/
$SHARDLOG_STATE or $XDG_STATE_HOME/shardlog or ~/.local/state/shardlog   dev/
"""

import os
from pathlib import Path


def jars_directory() -> Path:
    """Return where fetched jars are kept."""
    return _place("SHARDLOG_CACHE", "XDG_CACHE_HOME", ".cache") / "jars"


def dev_directory() -> Path:
    """Return where `shardlog dev` runs its processes and records them."""
    return _place("SHARDLOG_STATE", "XDG_STATE_HOME", ".local/state") / "dev"


def _place(own: str, shared: str, below_home: str) -> Path:
    if os.environ.get(own):
        return Path(os.environ[own]).absolute()
    shared_place = os.environ.get(shared)
    return (Path(shared_place) if shared_place else Path.home() / below_home) / "shardlog"
