"""The vocabulary of tests of the page: what a person does there, and sees.

page.run("QUERY order LIMIT 5")     writes a command, runs it, and waits for its answer
page.text("message")                what an element says
page.cells("amount")                a column of the table that is shown
page.click("form-chart")            presses a button
"""

import json
from typing import Any

from tests.events.page.chromium import Browser
from tests.log.serve.served import Served


class Opened:
    """The page of a server, in a browser."""

    def __init__(self, browser: Browser, served: Served) -> None:
        self.browser = browser
        self.served = served

    @property
    def url(self) -> str:
        return f"http://{self.served.server.address}/"

    def reopen(self) -> None:
        """Come to the page anew, as one who has never been there."""
        self.browser.open("about:blank")
        self.browser.size(1280, 800)
        self.browser.prefer("light")
        clear = "localStorage.clear(); sessionStorage.clear()"
        script = self.browser.call("Page.addScriptToEvaluateOnNewDocument", source=clear)
        self.browser.open(self.url)
        self.browser.call("Page.removeScriptToEvaluateOnNewDocument", **script)
        self.until("document.querySelector('#types .pick')")

    def value(self, script: str) -> Any:
        return self.browser.value(script)

    def until(self, script: str) -> None:
        self.browser.until(script)

    def write(self, text: str) -> None:
        """Write a command into the editor."""
        self.value(
            f"(() => {{ const area = document.getElementById('text'); area.value = "
            f"{json.dumps(text)}; area.dispatchEvent(new InputEvent('input')); area.focus(); }})()"
        )

    def run(self, text: str) -> None:
        """Run a command, and wait for its answer."""
        self.write(text)
        self.value("document.getElementById('status').hidden = true")
        self.click("run")
        self.until("!document.getElementById('status').hidden")

    def click(self, name: str) -> None:
        self.value(f"document.getElementById({json.dumps(name)}).click()")

    def text(self, name: str) -> str:
        said: str = self.value(f"document.getElementById({json.dumps(name)}).textContent")
        return said

    def count(self, selector: str) -> int:
        """Return how many elements there are."""
        count: int = self.value(f"document.querySelectorAll({json.dumps(selector)}).length")
        return count

    def texts(self, selector: str) -> list[str]:
        """Return what each of some elements says."""
        script = (
            f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)"
        )
        said: list[str] = self.value(script)
        return said

    def cells(self, column: str) -> list[str]:
        """Return the cells of a column of the table that is shown."""
        place = self.texts("#shown th").index(column) + 1
        return self.texts(f"#shown tbody td:nth-child({place})")
