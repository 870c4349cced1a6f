"""How far upkeep is told to be: often, never too far, and never taken back."""

from itertools import pairwise

from storage_core.parts import part_file
from tests.log.parts.parts_lab import PartsLab


def test_seal_and_trim_tell_of_each_group_and_block(root, monkeypatch):
    monkeypatch.setattr(part_file, "GROUP_ROWS", 10)
    with PartsLab(root).stream as stream:
        for first in range(0, 100, 20):
            for number in range(first, first + 20):
                stream.append(number, 1, b"v%d" % number)
            stream.commit()
        sealed: list[int] = []
        trimmed: list[int] = []
        stream.seal(progress=sealed.append)
        stream.trim(progress=trimmed.append)
    for reported, least in ((sealed, 3 * 5), (trimmed, 5)):
        assert reported[-1] == 100
        assert all(before <= after for before, after in pairwise(reported))
        assert len(set(reported)) >= least
