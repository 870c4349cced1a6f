"""A real Chromium: Debian's package and the libraries it lacks, fetched by apt and unpacked.

Nothing is installed, so nobody has to be root. It is driven over the DevTools protocol by a pair of
pipes: messages are JSON, each ends with a byte 0. Where it cannot be had its tests are skipped, and
fail with SHARDLOG_REQUIRE_CHROMIUM=1.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final, NoReturn

import pytest

from connectors.devtools.fetch import locked
from connectors.devtools.places import jars_directory

FETCH_MAX_S: Final = 900
ANSWER_MAX_S: Final = 120
# A server of packages, or the network, is away for a moment now and then. The lock is apt's own,
# for who installs; the archives lie in a folder of ours.
_APT: Final = ("apt-get", "-o", "Acquire::Retries=3", "-o", "Debug::NoLocking=1")
_PROGRAM: Final = "usr/lib/chromium/chromium"
_OPTIONS: Final = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--mute-audio"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-breakpad", "--no-proxy-server"),
    *(
        "--use-mock-keychain",
        "--disable-features=Translate,MediaRouter",
        "--force-color-profile=srgb",
    ),
    "--remote-debugging-pipe",
)
# It reads messages from its descriptor 3, and writes to 4.
_WITH_PIPES: Final = """
import os, sys
pipes = [os.dup(os.dup(os.dup(int(number)))) for number in sys.argv[1:3]]
for place, pipe in zip((3, 4), pipes):
    os.dup2(pipe, place)
os.execv(sys.argv[3], sys.argv[3:])
"""

# A machine without any font is given those that come with the package.
_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<dir>/usr/share/fonts</dir><dir>{place}/usr/share/fonts</dir><cachedir>{directory}/fonts</cachedir>
<include ignore_missing="yes">/etc/fonts/conf.d</include>
</fontconfig>
"""
_TEXT: Final = "document.body.innerText.slice(0, 800)"


class ScriptError(AssertionError):
    """A script of a test failed in the page."""


@cache
def chromium() -> Path:
    """Return where it is unpacked; skip the test where it cannot be had."""
    place = jars_directory().parent / "chromium"
    with locked(place.parent, "fetching chromium"):
        if not (place / _PROGRAM).is_file():
            _fetch(place)
    return place


class Browser:
    """A browser with one tab. One thread drives it.

    Attributes:
        complaints: What the console said that is an error or a warning, and each exception.
    """

    def __init__(self, send: int, receive: int) -> None:
        self._send = send
        self._receive = receive
        self._answers: Queue[dict[str, Any]] = Queue()
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        self._reader = threading.Thread(target=self._read, name="chromium", daemon=True)
        self._reader.start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return what a method of the protocol is answered."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            try:
                answer = self._answers.get(timeout=ANSWER_MAX_S)
            except Empty:
                pytest.fail(f"chromium does not answer {method}")
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is there."""
        self.complaints.clear()
        self.call("Page.navigate", url=url)
        self.until(
            f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})"
        )

    def value(self, script: str) -> Any:
        """Return what an expression is in the page, once its promise is kept."""
        said = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in said:
            details = said["exceptionDetails"]
            raise ScriptError(details.get("exception", {}).get("description", details["text"]))
        return said["result"].get("value")

    def until(self, script: str) -> None:
        """Wait, in the page, until an expression is true."""
        wait = f"""new Promise((done, fail) => {{
          const begun = performance.now();
          const look = () => {{
            if ({script}) done(true);
            else if (performance.now() - begun > {ANSWER_MAX_S * 900})
              fail(new Error("never: " + {json.dumps(script)} + "; there is " + {_TEXT}));
            else setTimeout(look, 15);
          }};
          look();
        }})"""
        self.value(wait)

    def press(self, key: str, code: int, modifiers: int = 0) -> None:
        """Press a key, as a person does."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="rawKeyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        """Write a text where the focus is."""
        for letter in text:
            self.call("Input.dispatchKeyEvent", type="char", text=letter)

    def size(self, width: int, height: int) -> None:
        """Give the window another size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark, as the system does."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self) -> str:
        """Return what is seen, as PNG in base64."""
        data: str = self.call("Page.captureScreenshot", format="png")["data"]
        return data

    def _read(self) -> None:
        received = b""
        while piece := _piece(self._receive):
            *messages, received = (received + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers.put(message)
                else:
                    self._note(message["method"], message["params"])

    def _note(self, method: str, said: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(said["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and said["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(said["args"]))
        elif method == "Log.entryAdded" and said["entry"]["source"] != "network":
            # An answer of 400 is an entry of the network's, and no fault of the page.
            self.complaints.append(json.dumps(said["entry"]))


@contextmanager
def browsing(directory: Path) -> Iterator[Browser]:
    """Run a browser whose profile lies in a directory."""
    place = chromium()
    ours, theirs = os.pipe(), os.pipe()
    command = [str(place / _PROGRAM), *_OPTIONS, f"--user-data-dir={directory}"]
    fonts = directory / "fonts.conf"
    fonts.write_text(_FONTS.format(place=place, directory=directory))
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": _libraries(place),
        "FONTCONFIG_FILE": str(fonts),
        "HOME": str(directory),
    }
    with (directory / "chromium.log").open("wb") as log:
        program = subprocess.Popen(
            [sys.executable, "-c", _WITH_PIPES, str(ours[0]), str(theirs[1]), *command],
            env=environment,
            pass_fds=(ours[0], theirs[1]),
            stdout=log,
            stderr=log,
        )
    os.close(ours[0])
    os.close(theirs[1])
    try:
        yield Browser(ours[1], theirs[0])
    finally:
        _end(program, ours[1])
        os.close(theirs[0])


def _end(program: "subprocess.Popen[bytes]", pipe: int) -> None:
    # It ends with its pipe; profiles are thrown away, so nothing is lost by a kill.
    os.close(pipe)
    try:
        program.wait(10)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 2**20)
    except OSError:
        return b""


def _libraries(place: Path) -> str:
    return ":".join(sorted({str(one.parent) for one in place.glob("usr/lib/**/*.so*")}))


def _fetch(place: Path) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            _missing(f"no {tool} to fetch Debian's chromium with")
    with tempfile.TemporaryDirectory(dir=place.parent) as name:
        partial = Path(name)
        (partial / "archives/partial").mkdir(parents=True)
        got = _download(partial, ())
        if got.returncode:
            # The lists of a fresh machine are empty, those of an old one name what is gone. Lists
            # of our own need no root, and nobody else who updates is in the way.
            (partial / "lists/partial").mkdir(parents=True)
            lists = ("-o", f"Dir::State::lists={partial / 'lists'}", "-o", f"Dir::Cache={partial}")
            _run([*_APT, *lists, "update"], partial)
            got = _download(partial, lists)
        packages = sorted((partial / "archives").glob("*.deb"))
        if got.returncode or not packages:
            _missing(f"apt has no chromium: {got.stderr.strip()[-300:]}")
        unpacked = partial / "unpacked"
        for package in packages:
            _run(["dpkg-deb", "--extract", str(package), str(unpacked)], partial)
        if not (unpacked / _PROGRAM).is_file():
            _missing("the package chromium has no browser in it: it is not Debian's")
        shutil.rmtree(place, ignore_errors=True)
        unpacked.rename(place)


def _missing(reason: str) -> NoReturn:
    if os.environ.get("SHARDLOG_REQUIRE_CHROMIUM") == "1":
        pytest.fail(f"SHARDLOG_REQUIRE_CHROMIUM=1, but {reason}")
    pytest.skip(reason)


def _download(directory: Path, lists: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    """Have apt fetch chromium and what it needs beside what is installed."""
    archives = f"Dir::Cache::archives={directory / 'archives'}"
    options = ("-o", archives, "--yes", "--no-install-recommends", "--download-only")
    return _run([*_APT, *lists, *options, "install", "chromium"], directory)


def _run(command: list[str], directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=FETCH_MAX_S, check=False
    )
