"""What is known of a shard while a server is silent: what it may have got since is not left out."""

import pytest

from storage_core import UnavailableError
from storage_core.format.shard_state import AddressRange
from storage_core.remote.shard_view import ShardView
from tests.unit.storage_core.remote.test_coverage import piece_of

A = "127.0.0.1:8085"


def view_of(*, born: int, is_held: bool) -> ShardView:
    """Return a shard whose owner begins at 4, behind one that is silent, and had nothing then."""
    away = {A: piece_of(0, 0, 0, 0, is_held=is_held).extent}
    pieces = (piece_of(1, 4, 4, 4, is_held=True),)
    return ShardView("clicks", 0, pieces, 0, born, away, ())


@pytest.mark.parametrize("is_held", [True, False])
def test_rows_that_a_silent_server_may_have_got_since_are_not_left_out(is_held) -> None:
    view = view_of(born=0, is_held=is_held)
    assert view.whole.lacking == (AddressRange(0, 4),)
    with pytest.raises(UnavailableError, match=f"{A}: not to be had"):
        view.require(0, 4, is_replay=False)


def test_log_that_was_known_to_begin_there_lacks_nothing() -> None:
    assert view_of(born=4, is_held=False).whole.lacking == ()
