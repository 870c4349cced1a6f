"""Files that appear whole or not at all."""

import pytest

from connectors.output_formats.whole_file import WholeFile
from storage_core import InvalidRequestError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def met_by_another(path):
    with WholeFile(path, overwrite=False) as file:
        file.text("ours")
        path.write_text("theirs")


def test_a_file_that_is_there_is_refused_unless_it_may_go(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("before")
    with pytest.raises(InvalidRequestError, match="--overwrite"):
        WholeFile(path, overwrite=False)
    with WholeFile(path, overwrite=True) as file:
        file.text("after")
    assert (names(tmp_path), path.read_text()) == (["rows.csv"], "after")


def test_a_file_that_comes_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "rows.csv"
    with pytest.raises(InvalidRequestError, match="--overwrite"):
        met_by_another(path)
    assert (names(tmp_path), path.read_text()) == (["rows.csv"], "theirs")


@pytest.mark.parametrize("place", ["/dev/null", "/dev", "no/such/folder/rows.csv", "a" * 300])
def test_a_place_for_no_file_is_refused(tmp_path, place):
    with pytest.raises(InvalidRequestError, match="--to"):
        WholeFile(tmp_path / place, overwrite=True)
    assert names(tmp_path) == []


def test_a_link_keeps_pointing_to_what_is_written(tmp_path):
    (tmp_path / "real.csv").write_text("before")
    link = tmp_path / "link.csv"
    link.symlink_to("real.csv")
    with WholeFile(link, overwrite=True) as file:
        file.text("after")
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_text() == "after"
