"""Fixtures of the scenarios of the page: one browser and one server for all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.events.front_ends.doors import commanding
from tests.events.page.chromium import browsing
from tests.events.page.opened import Opened

DEFINED = (
    'DEFINE order FIELDS { amount: "int", status: ["new", "paid"], note: "string | null", '
    'at: "timestamp" }'
)
HOSTILE = "<img src=x onerror=alert(1)>"


def _stores() -> str:
    rows = [
        f'STORE order FOR "c-{number % 5}" PAYLOAD {{ "amount": {number}, "status": '
        f'"{"paid" if number % 3 else "new"}", "at": {1769860800 + number * 1800} }}'
        for number in range(40)
    ]
    hostile = f'STORE order FOR "{HOSTILE}" PAYLOAD {{ "amount": 9007199254740993, '
    return "\n".join([*rows, f'{hostile}"status": "new", "note": "{HOSTILE}", "at": 1769860800 }}'])


@pytest.fixture(scope="package")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The page of a server that has events, in a browser."""
    place: Path = tmp_path_factory.mktemp("page")
    with commanding(place / "root") as served, browsing(place) as browser:
        for body in (DEFINED, _stores()):
            assert served.post("/command", body.encode())[0] == 200
        opened = Opened(browser, served)
        opened.reopen()
        yield opened


@pytest.fixture
def page(opened: Opened) -> Iterator[Opened]:
    """The page as it is at first; what its console complains of is a failure."""
    opened.reopen()
    yield opened
    assert opened.browser.complaints == []
