"""How the interpreter is set for a process that hands records on by the million.

Messages, columns and rounds are freed by their counts; they form no cycles. With the defaults
the collector walks them again and again, and a thread that comes back from a sync waits 5 ms
for the interpreter, which is most of a round. Arrow's own pool keeps a worker 40 MB larger than
the system's, and makes it no faster.
"""

import gc
import sys
from typing import Final

import pyarrow as pa

_SWITCH_INTERVAL_S: Final = 0.000_5
_COLLECT_AFTER: Final = (100_000, 20, 20)


def tune_process() -> None:
    """Set it; once, before threads begin."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    pa.set_memory_pool(pa.system_memory_pool())
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
