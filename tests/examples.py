"""How often a property is tried: as often as it says, or SHARDLOG_EXAMPLES times each."""

import os

_EACH = os.environ.get("SHARDLOG_EXAMPLES", "")


def examples(usual: int) -> int:
    """Return how many examples of a property to try, which by itself would try so many."""
    return int(_EACH or usual)
