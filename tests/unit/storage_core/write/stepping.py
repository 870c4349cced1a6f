"""A call watched between every two bytecodes: what another thread could see at any moment."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from storage_core.ids.heads import shard_heads
from storage_core.write import shard


def at_each_step(call: Callable[[], object], look: Callable[[], object]) -> int:
    """Make a call and look between every two bytecodes of the shard; return how often.

    What `look` itself runs is not watched. It must ask for no lock that the call holds: another
    thread would wait, this one would for ever.
    """
    watched = {shard.__file__, shard_heads.__file__}
    looks = 0

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in watched:
            return None
        frame.f_trace_opcodes = True
        return step

    def step(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal looks
        if event == "opcode":
            looks += 1
            look()
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return looks
