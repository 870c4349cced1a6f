"""What somebody does first on the page: runs its examples, copies an answer, watches a query."""

import pytest

from tests.events.page.opened import Opened

EXAMPLE = (
    "[...document.querySelectorAll('#examples .pick')].find((one) => one.textContent === '{}')"
)
CLIPBOARD = "navigator.clipboard.readText()"


def written_by_example(page: Opened, label: str) -> str:
    page.value(f"{EXAMPLE.format(label)}.click()")
    text: str = page.value("document.getElementById('text').value")
    return text


def copied(page: Opened) -> list[list[str]]:
    """Return the cells that Copy copies of the table that is shown."""
    page.browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
    origin = page.value("location.origin")
    permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    page.browser.call("Browser.grantPermissions", origin=origin, permissions=permissions)
    page.click("copy")
    page.until("document.getElementById('copy').textContent !== 'Copy'")
    assert page.text("copy") == "Copied"
    return [line.split("\t") for line in page.value(CLIPBOARD).split("\n")]


def test_example_that_defines_a_type_changes_none_that_is_there(page: Opened) -> None:
    types = set(page.texts("#types .pick .mono"))
    page.run(written_by_example(page, "Define a type"))
    assert page.text("status") == "OK"
    assert page.text("message").endswith("version 1")
    page.until(f"document.querySelectorAll('#types .pick').length > {len(types)}")


def test_copied_times_have_all_their_digits(page: Opened) -> None:
    page.run("QUERY order WHERE amount < 2 ORDER BY amount")
    cells = page.cells("timestamp")
    names, *rows = copied(page)
    times = [row[names.index("timestamp")] for row in rows]
    page.click("form-json")
    page.until("document.querySelector('#shown pre')")
    assert len(times) == len(cells) == 2
    assert all(f'"timestamp": "{time}"' in page.text("shown") for time in times)


def test_copied_texts_stay_in_their_line(page: Opened) -> None:
    page.served.post("/command", b'DEFINE noted FIELDS { text: "string" }')
    page.served.post("/command", b'STORE noted FOR a PAYLOAD { "text": "one\\ntwo\\tthree" }')
    page.run("QUERY noted")
    names, *rows = copied(page)
    assert [row[names.index("text")] for row in rows] == ["one two three"]


def test_plot_of_one_bucket_is_a_bar(page: Opened) -> None:
    page.run("PLOT COUNT OF order BY status OVER year USING at")
    page.until("document.querySelector('.chart svg')")
    assert (page.count(".chart .bar-of"), page.count(".chart .path")) == (2, 0)


def test_watching_a_query_takes_its_context_and_condition(page: Opened) -> None:
    page.write('QUERY order FOR "c-1" WHERE amount IN (1, 6) OR note IS NULL LIMIT 5')
    page.click("watch")
    page.until("document.getElementById('live-state').textContent === 'Live.'")
    said = page.text("live-text")
    assert said.startswith(
        'SUBSCRIBE "order" FOR "c-1" WHERE amount IN (1, 6) OR note IS NULL FROM NOW'
    )
    page.click("tab-commands")
    page.write("QUERY order")
    page.click("watch")
    page.until(
        "document.getElementById('live-text').textContent.startsWith('SUBSCRIBE \"order\" FROM')"
    )
    page.click("live-pause")


@pytest.mark.parametrize("width", [390, 1500])
def test_names_of_bars_stand_along_the_whole_axis(page: Opened, width: int) -> None:
    page.browser.size(width, 900)
    page.run("PLOT COUNT OF order WHERE amount < 3 BY context_id")
    page.until("document.querySelector('.chart .bar-of')")
    assert {"c-0", "c-1", "c-2"} <= set(page.texts(".chart text"))
    place = "Number([...document.querySelectorAll('.chart .bar-of')].at(-1).getAttribute('x'))"
    assert page.value(f"{place} > document.querySelector('.chart svg').clientWidth * 0.6")
