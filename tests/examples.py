"""How often a property is tried, at most: SHARDLOG_EXAMPLES_MAX, which `make quick` lowers."""

import os
from typing import Final

EXAMPLES_MAX: Final = int(os.environ.get("SHARDLOG_EXAMPLES_MAX", "100"))
