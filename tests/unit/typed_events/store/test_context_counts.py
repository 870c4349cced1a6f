"""What is remembered of a context is what was stored last, if anything is."""

from hypothesis import given
from hypothesis import strategies as st

from typed_events.store.context_counts import ContextCounts
from typed_events.store.submission import Place

places = st.sampled_from([Place("orders", 0), Place("orders", 1), Place("visits", 0)])
contexts = st.sampled_from([b"a", b"b", b"c", b"d"])
groups = st.lists(st.tuples(places, st.dictionaries(contexts, st.integers(1, 9))), max_size=12)


@given(groups, st.integers(1, 12))
def test_count_that_is_remembered_is_the_newest(
    groups: list[tuple[Place, dict[bytes, int]]], size_max: int
) -> None:
    counts, newest = ContextCounts(size_max), dict[tuple[Place, bytes], int]()
    for place, group in groups:
        counts.put(place, group)
        newest |= {(place, context): count for context, count in group.items()}
        for (where, context), count in newest.items():
            assert counts.get(where, context) in (count, None)
        assert all(counts.get(place, context) == count for context, count in group.items())


def test_few_contexts_are_all_remembered_and_of_many_the_oldest_forgotten() -> None:
    place, counts = Place("orders", 0), ContextCounts(10)
    for number in range(5):
        counts.put(place, {b"%d" % number: number})
    assert [counts.get(place, b"%d" % number) for number in range(5)] == [0, 1, 2, 3, 4]
    for number in range(5, 50):
        counts.put(place, {b"%d" % number: number})
    assert counts.get(place, b"0") is None
    assert counts.get(place, b"49") == 49
    counts.clear()
    assert counts.get(place, b"49") is None
