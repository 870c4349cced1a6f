"""The writer's windows: widened over what the store holds, remembered once they are written."""

from storage_core.format.keys import window_key
from storage_core.format.window import Window, encode_window
from storage_core.write.window_table import WINDOWS_MAX, WindowTable


def nothing(keys: list[bytes]) -> list[bytes | None]:
    """Look up in a store without windows."""
    return [None] * len(keys)


def test_table_forgets_what_was_not_accepted():
    table = WindowTable(nothing)
    table.widen({1: Window(5, 5, 1)})
    assert table.widen({1: Window(9, 9, 1)}) == {1: Window(9, 9, 1)}


def test_table_widens_what_the_store_holds():
    stored = {window_key(number): encode_window(Window(number, number, 10)) for number in (7, 8)}
    table = WindowTable(lambda keys: [stored.get(key) for key in keys])
    table.accept(table.widen({7: Window(9, 9, 1), 9: Window(1, 1, 1)}))
    assert table.widen({7: Window(3, 3, 1), 8: Window(2, 2, 1), 9: Window(2, 2, 1)}) == {
        7: Window(3, 9, 12),
        8: Window(2, 8, 11),
        9: Window(1, 2, 2),
    }


def test_table_remembers_no_more_than_its_capacity():
    lookups: list[bytes] = []

    def load(keys: list[bytes]) -> list[bytes | None]:
        lookups.extend(keys)
        return nothing(keys)

    table = WindowTable(load)
    for number in range(WINDOWS_MAX + 1):
        table.accept({number: Window()})
    table.widen({number: Window() for number in (0, 1, WINDOWS_MAX)})
    assert lookups == [window_key(0)]
