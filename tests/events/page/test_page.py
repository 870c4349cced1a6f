"""The page, in a real browser: what it shows, that its scripts run, and that nothing else does."""

import json
import re
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.events.front_ends.doors import commanding
from tests.events.page.conftest import HOSTILE
from tests.events.page.opened import Opened
from tests.log.serve.served import ANSWER_MAX_S, Served

CONTROL = 2
ENTER = 13
TOKEN = "a-token-of-the-tests-1"  # noqa: S105 - of no server that lasts


def head_of(served: Served, path: str = "/", **headers: str) -> tuple[int, dict[str, str]]:
    connection = HTTPConnection(served.server.address, timeout=ANSWER_MAX_S)
    with suppress(OSError):
        connection.request("HEAD", path, headers=headers)
    answer = connection.getresponse()
    connection.close()
    return answer.status, dict(answer.getheaders())


def test_page_needs_no_other_origin(opened: Opened) -> None:
    status, headers = head_of(opened.served)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    body = opened.served.get("/").read().decode()
    assert "src=" not in body.replace(" http", "")
    assert "/*style*/" not in body
    assert "/*script*/" not in body


def test_types_and_their_fields_are_at_the_side(page: Opened) -> None:
    # Types of other tests are there, too.
    place = page.texts("#types .pick .mono").index("order") + 1
    page.value(f"document.querySelector('#types > li:nth-child({place}) .pick').click()")
    assert page.texts("#types .sub:not([hidden]) .mono") == ["amount", "status", "note", "at"]


def test_command_is_run_by_its_keys(page: Opened) -> None:
    page.write("QUERY order WHERE amount < 3 ORDER BY amount")
    page.browser.press("Enter", ENTER, CONTROL)
    page.until("document.querySelector('#shown td')")
    assert page.text("status") == "OK"
    assert page.text("message") == "3 rows"
    assert page.cells("amount") == ["0", "1", "2"]
    assert re.search(r"[0-9] m?s", page.text("timing"))


def test_words_of_the_language_are_coloured(page: Opened) -> None:
    page.write('query order WHERE note LIKE "%x%" LIMIT 5')
    assert page.texts("#paint .t-verb") == ["query"]
    assert page.texts("#paint .t-type") == ["order"]
    assert page.texts("#paint .t-field") == ["note"]
    assert page.texts("#paint .t-string") == ['"%x%"']
    assert page.value("document.getElementById('paint').textContent.trimEnd()") == (
        'query order WHERE note LIKE "%x%" LIMIT 5'
    )


@pytest.mark.parametrize(
    ("text", "marked", "said"),
    [
        ("QUERY order\nWHERE amout > 5", ["amout"], "did you mean amount"),
        ("  QUERY order WHERE = 5", ["="], "column 19"),
        ("PING;\n  QUERY order LIMITT 5", ["LIMITT"], "LIMIT"),
        ("QUERY ordr", ["ordr"], "did you mean order"),
        ("QUERY order WHERE amount >", ["  "], "the command ends"),
    ],
)
def test_error_is_told_in_words_and_marked_at_its_place(
    page: Opened, text: str, marked: list[str], said: str
) -> None:
    page.run(text)
    assert said in page.text("wrong")
    assert page.texts("#paint .wrong") == marked


def test_integers_of_64_bits_are_shown_as_they_are(page: Opened) -> None:
    page.run("QUERY order WHERE amount > 1000")
    assert page.cells("amount") == ["9007199254740993"]
    page.click("form-json")
    assert '"amount": 9007199254740993' in page.text("shown")


def test_what_the_server_says_is_text_and_never_html(page: Opened) -> None:
    page.run("QUERY order WHERE amount > 1000")
    assert page.cells("context_id") == [HOSTILE]
    assert page.cells("note") == [HOSTILE]
    page.click("form-json")
    page.run(f'REPLAY FOR "{HOSTILE}"')
    page.run(f'QUERY "{HOSTILE}"')
    assert HOSTILE in page.text("wrong")
    assert page.count("img") == 0


def test_figures_are_drawn_with_axes_and_a_legend(page: Opened) -> None:
    page.run("QUERY order WHERE amount < 1000 COUNT, TOTAL amount BY status PER hour USING at")
    page.click("form-chart")
    page.until("document.querySelector('.chart .bar-of')")
    assert page.texts(".chart h3") == [
        "count by bucket and status 2026-01-31 to 2026-02-01, UTC",
        "total_amount by bucket and status 2026-01-31 to 2026-02-01, UTC",
    ]
    assert sorted(page.texts(".chart:first-child .legend span")) == ["new", "paid"]
    assert any(text.endswith(":00") for text in page.texts(".chart text"))
    rows = page.served.post(
        "/command", b"QUERY order WHERE amount < 1000 COUNT BY status PER hour USING at"
    )[1]
    assert page.count(".chart:first-child .bar-of") == len(rows.splitlines()) - 1


def test_plan_of_a_query_tells_what_it_skipped(page: Opened) -> None:
    page.run("QUERY order LIMIT 3")
    page.click("form-plan")
    page.until("document.querySelector('#shown th')?.textContent === 'step'")
    assert "row groups" in page.cells("step")


def test_answer_beyond_the_bound_is_cut_and_says_so(page: Opened) -> None:
    # It is cut in a text that has many quotation marks.
    note = '\\"x' * 300_000
    page.served.post("/command", b'DEFINE large FIELDS { note: "string" }')
    store = f'STORE large FOR a PAYLOAD {{ "note": "{note}" }}'
    for _ in range(5):
        assert page.served.post("/command", store.encode())[0] == 200
    page.run("QUERY large")
    assert "Set a LIMIT" in page.text("cut")
    assert page.text("message") == "4 rows"


def test_names_are_completed(page: Opened) -> None:
    page.write("")
    page.browser.type("QUERY ord")
    page.until("!document.getElementById('offers').hidden")
    # Other tests define types that begin so, too.
    assert page.texts("#offers li span:first-child")[0] == "order"
    page.browser.press("Tab", 9)
    page.browser.type(" WHERE amo")
    page.browser.press("Tab", 9)
    assert page.value("document.getElementById('text').value") == "QUERY order WHERE amount"


def test_history_brings_commands_back(page: Opened) -> None:
    page.run("LIST TYPES")
    page.run("PING")
    assert page.texts("#history .pick") == ["PING", "LIST TYPES"]
    page.value("document.querySelectorAll('#history .pick')[1].click()")
    assert page.value("document.getElementById('text').value") == "LIST TYPES"


def test_events_appear_as_they_are_stored_and_none_is_missed_by_a_pause(page: Opened) -> None:
    page.served.post("/command", b'DEFINE seen FIELDS { at: "int" }')
    page.write("SUBSCRIBE seen FROM START")
    page.click("run")
    page.until("document.getElementById('live-state').textContent === 'Live.'")

    def store(number: int) -> None:
        text = f'STORE seen FOR a PAYLOAD {{ "at": {number} }}'
        assert page.served.post("/command", text.encode())[0] == 200

    rows = "[...document.querySelectorAll('#live-rows tbody td:last-child')]"
    numbers = f"{rows}.map((one) => one.textContent).join()"
    store(1)
    page.until(f"{numbers} === '1'")
    page.click("live-pause")
    store(2)
    assert "Paused" in page.text("live-state")
    page.click("live-pause")
    page.until(f"{numbers} === '2,1'")
    store(3)
    page.until(f"{numbers} === '3,2,1'")
    assert page.text("live-checkpoint").startswith("seen/0:3@")
    page.click("live-pause")


def test_refused_subscription_says_why(page: Opened) -> None:
    page.write("SUBSCRIBE nothing_here")
    page.click("run")
    page.until("document.getElementById('live-state').classList.contains('said-bad')")
    assert "nothing_here" in page.text("live-state")


@pytest.mark.parametrize("width", [320, 390, 768])
def test_narrow_window_needs_no_scrolling_to_the_side(page: Opened, width: int) -> None:
    page.browser.size(width, 800)
    page.run("QUERY order LIMIT 20")
    for tab in ("tab-commands", "tab-live", "tab-board"):
        page.click(tab)
        wide = page.value(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, tab


def test_colours_follow_the_system_unless_told(page: Opened) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.value(background)
    page.browser.prefer("dark")
    page.until(f"{background} !== {json.dumps(light)}")
    page.click("theme")
    page.until(f"{background} === {json.dumps(light)}")


def test_every_control_has_a_name(page: Opened) -> None:
    page.run("QUERY order LIMIT 1")
    nameless = page.value(
        "[...document.querySelectorAll('button, input, select, textarea')].filter((one) => "
        "!(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).map("
        "(one) => one.outerHTML)"
    )
    assert nameless == []


def test_token_is_asked_for_and_kept_for_the_tab(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    with commanding(tmp_path / "root", write_tokens=tmp_path / "tokens") as served:
        browser = opened.browser
        browser.open(f"http://{served.server.address}/")
        browser.until("!document.getElementById('token-form').hidden")
        browser.value(
            f"document.getElementById('token').value = {json.dumps(TOKEN)};"
            "document.getElementById('token-form').requestSubmit()"
        )
        browser.until("document.querySelector('#types .empty')")
        assert browser.value("Object.values(sessionStorage)") == [TOKEN]
        assert browser.value("Object.values(localStorage).join().includes('token-of')") is False
        assert browser.complaints == []


def test_store_without_types_says_what_to_type_first(opened: Opened, tmp_path: Path) -> None:
    with commanding(tmp_path / "root") as served:
        page = Opened(opened.browser, served)
        page.browser.open(page.url)
        page.until("document.querySelector('#types .empty button')")
        page.value("document.querySelector('#types .empty button').click()")
        page.click("run")
        page.until("document.querySelector('#types .pick')")
        assert page.texts("#types .pick .mono") == ["order"]


def test_server_may_leave_the_page_out(tmp_path: Path) -> None:
    with commanding(tmp_path / "root", has_page=False) as served:
        assert head_of(served)[0] == 404


def test_page_has_a_host_as_all_else_has(opened: Opened) -> None:
    assert head_of(opened.served, Host="elsewhere.example")[0] == 403


def test_status_board_counts_what_is_stored(page: Opened) -> None:
    page.served.post("/command", b'DEFINE counted_here FIELDS { number: "int" }')
    page.click("tab-board")
    page.until("document.querySelector('#board-streams td strong')")
    rows = (
        "[...document.querySelectorAll('#board-streams tbody tr')].find((one) => "
        "one.textContent.startsWith('counted_here'))?.children[3].textContent"
    )
    for _ in range(3):
        page.served.post("/command", b'STORE counted_here FOR a PAYLOAD { "number": 1 }')
    page.until(f"{rows} === '3'")
    assert page.texts("#board-tiles span")[:2] == ["streams", "rows stored"]
    assert not page.value("document.getElementById('board-said').classList.contains('said-bad')")


def test_plot_is_drawn_at_once(page: Opened) -> None:
    page.run("PLOT TOTAL amount OF order WHERE amount < 1000 BY status OVER hour USING at")
    assert page.text("status") == "OK", page.text("wrong")
    page.until("document.querySelector('.chart svg')")
    assert (
        page.value("document.getElementById('form-chart').getAttribute('aria-selected')") == "true"
    )
    assert page.texts(".chart h3")[0].startswith("total_amount by bucket and status")
    assert page.count(".chart .path") + page.count(".chart .bar-of") > 1


def test_months_of_an_axis_begin_where_the_calendar_has_them(page: Opened) -> None:
    page.served.post("/command", b'DEFINE dated FIELDS { day: "date" }')
    days = ("2026-01-31", "2026-02-15", "2026-03-31", "2026-05-01", "2026-06-30")
    for day in days:
        store = f'STORE dated FOR a PAYLOAD {{ "day": "{day}" }}'
        assert page.served.post("/command", store.encode())[0] == 200
    page.run("QUERY dated COUNT PER month USING day")
    page.click("form-chart")
    page.until("document.querySelector('.chart .bar-of')")
    months = [text for text in page.texts(".chart text") if text.startswith("2026-")]
    assert months == ["2026-01", "2026-02", "2026-03", "2026-04", "2026-05", "2026-06"]


def test_many_names_are_not_drawn_as_bars_that_nobody_sees(page: Opened) -> None:
    page.served.post("/command", b'DEFINE many FIELDS { number: "int" }')
    stores = [f'STORE many FOR "m-{n}" PAYLOAD {{ "number": {n} }}' for n in range(250)]
    assert page.served.post("/command", "\n".join(stores).encode())[0] == 200
    page.run("QUERY many COUNT BY context_id")
    page.click("form-chart")
    page.until("document.querySelector('.chart .bar-of')")
    assert page.count(".chart .bar-of") == 200
    assert "The first 200 of 250 are drawn" in page.text("shown")


def test_fields_of_a_type_among_many_are_asked_for_when_it_is_opened(
    opened: Opened, tmp_path: Path
) -> None:
    with commanding(tmp_path / "root") as served:
        types = [f'DEFINE kind_{n:02} FIELDS {{ field_{n}: "int" }}' for n in range(26)]
        assert served.post("/command", "\n".join(types).encode())[0] == 200
        page = Opened(opened.browser, served)
        page.reopen()
        assert page.texts("#types .pick .quiet")[-1] == "v1"
        page.value("document.querySelector('#types > li:last-child .pick').click()")
        page.until("document.querySelector('#types .sub:not([hidden]) .mono')")
        assert page.texts("#types .sub:not([hidden]) .mono") == ["field_25"]
        page.write("QUERY kind_24 WHERE ")
        page.browser.type("f")
        page.until("document.querySelector('#paint .t-word, #paint .t-type')")
        page.write("QUERY kind_24 WHERE field_24")
        page.browser.type(" ")
        page.until("document.querySelector('#paint .t-field')")


def test_status_board_stays_where_somebody_scrolled_to(page: Opened) -> None:
    page.browser.size(390, 80)
    page.click("tab-board")
    page.until("document.querySelector('#board-streams td strong')")
    page.value(
        "(() => { const box = document.querySelector('#board-streams .scroll');"
        "box.scrollTop = 40; box.scrollLeft = 50; document.querySelector('#board-streams tbody')"
        ".dataset.isOld = 1; })()"
    )
    page.until("!document.querySelector('#board-streams tbody').dataset.isOld")
    places = "(({ scrollTop, scrollLeft }) => [scrollTop, scrollLeft])"
    assert page.value(f"{places}(document.querySelector('#board-streams .scroll'))") == [40, 50]


def test_live_view_says_what_is_subscribed_to(page: Opened) -> None:
    page.write("SUBSCRIBE order WHERE amount > 1000 FROM START")
    page.click("run")
    page.until("document.querySelector('#live-rows td')")
    assert page.text("live-text").startswith("SUBSCRIBE order WHERE amount > 1000 FROM START")
    page.click("live-pause")
