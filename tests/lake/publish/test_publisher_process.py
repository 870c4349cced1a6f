"""What the process that publishes for a writer says of how far it has come."""

import shutil

from storage_core import StreamReader
from storage_core.lake import PublishOrder
from storage_core.lake.publishing.publisher_process import published
from tests.lake.publish.publish_lab import PublishLab
from tests.log.parts.parts_lab import NAME


def test_marks_are_those_of_before_what_is_sealed_meanwhile(root) -> None:
    lab = PublishLab(root).fill(60)
    shard = min(lab.stream.committed())
    marks = lab.stream.part_marks()
    fills = iter([60])

    def seal_more(_rows: int) -> None:
        for count in fills:
            lab.fill(count)

    answer = published(PublishOrder(lab.root, NAME, [shard], lab.target), seal_more)
    assert lab.stream.part_marks() != marks
    assert answer.part_marks[shard] == marks[shard]
    with StreamReader.open(lab.root, NAME) as reader:
        assert answer.published[shard].end <= reader.committed()[shard]
    lab.stream.close()


def test_shard_whose_directory_is_gone_keeps_no_other_from_being_published(root) -> None:
    lab = PublishLab(root).fill(60)
    lab.stream.close()
    shutil.rmtree(lab.root / NAME / "shard-0000")
    answer = published(PublishOrder(lab.root, NAME, [0, 1], lab.target), lambda _rows: None)
    assert list(answer.errors) == [0]
    assert "shard 0" in str(answer.errors[0])
    assert answer.published[1].rows > 0
