"""The text of a checkpoint: places, each with the proof of the row before it where there is one."""

import re
from typing import Final

_PLACE: Final = r"(?:[a-zA-Z0-9._-]{1,249}/)?[0-9]{1,9}:[0-9]{1,18}(?:@[0-9a-f]{16})?"
CHECKPOINT: Final = re.compile(rf"{_PLACE}(?:, *{_PLACE})*+\Z")
