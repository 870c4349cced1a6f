"""The spacing: how it follows what waits, and how seldom it changes."""

from typing import Any

import pytest

from storage_core.catalog.index_options import IndexOptions
from storage_core.ids.index.spacing import AdaptiveSpacing

HIGH, LOW, BETWEEN = 1025, 511, 700


def spacing_of(spacing: int = 16, **options: Any) -> AdaptiveSpacing:
    return AdaptiveSpacing(IndexOptions(**options), spacing, 0, 0)


def after_ticks(spacing: AdaptiveSpacing, waiting: int) -> list[int]:
    """Return the spacing after each of ten ticks."""
    spacings = []
    for _ in range(10):
        spacing.tick(waiting)
        spacings.append(spacing.spacing)
        assert spacing.batch == spacing.spacing // 2
    return spacings


def test_it_doubles_up_to_its_most_and_halves_down_to_its_least():
    spacing = spacing_of(ticks_between=0)
    assert after_ticks(spacing, HIGH) == [min(16 << n, 4096) for n in range(1, 11)]
    assert after_ticks(spacing, LOW) == [max(4096 >> n, 16) for n in range(1, 11)]
    assert (spacing.ups, spacing.downs) == (8, 8)


@pytest.mark.parametrize("between", [0, 1, 5, 9])
def test_so_many_ticks_lie_between_two_changes(between):
    spacing = spacing_of(ticks_between=between)
    changes = []
    for tick in range(60):
        before = spacing.spacing
        spacing.tick(HIGH)
        if spacing.spacing != before:
            changes.append(tick)
    assert changes[:3] == [0, between + 1, 2 * (between + 1)]


def test_ticks_that_pass_together_change_it_once():
    spacing = spacing_of()
    spacing.tick(HIGH, 100)
    assert spacing.spacing == 32
    spacing.tick(HIGH, 5)
    assert spacing.spacing == 32
    spacing.tick(HIGH, 1)
    assert spacing.spacing == 64


def test_between_the_marks_it_stays():
    spacing = spacing_of(64)
    for _ in range(20):
        spacing.tick(BETWEEN)
    assert (spacing.spacing, spacing.ups, spacing.downs) == (64, 0, 0)


@pytest.mark.parametrize(("waiting", "expected"), [(1024, 64), (1025, 128), (512, 64), (511, 32)])
def test_marks_are_shares_of_the_queue(waiting, expected):
    spacing = spacing_of(64)
    spacing.tick(waiting)
    assert spacing.spacing == expected


def test_it_goes_on_inside_the_options_in_force():
    assert spacing_of(0).spacing == 16
    assert spacing_of(4096, spacing_max=256).spacing == 256
    spacing = spacing_of(64)
    spacing.alter(IndexOptions(spacing_min=128))
    assert spacing.spacing == 128
    assert spacing.is_least
