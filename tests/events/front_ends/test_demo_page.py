"""What `make demo KEEP=1` leaves up: the page, with typed events beside the demo's streams."""

import json
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection

from tests.children import START_MAX_S
from tests.log.serve.served import ANSWER_MAX_S
from tests.tidy.tree import ROOT

PROGRAM = """
import sys
from pathlib import Path
from demo.page import leave_page_up
leave_page_up(Path(sys.argv[1]), lambda text: print(text, flush=True))
"""


def body_of(address: str, command: str | None = None) -> bytes:
    connection = HTTPConnection(address, timeout=ANSWER_MAX_S)
    try:
        if command is None:
            connection.request("GET", "/")
        else:
            connection.request("POST", "/command", command, {"Accept": "application/json"})
        return connection.getresponse().read()
    finally:
        connection.close()


def test_demo_leaves_the_page_up_with_events_until_it_is_interrupted(tmp_path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "root")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as demo:
        try:
            assert demo.stdout is not None
            assert "orders and payments" in demo.stdout.readline()
            line = demo.stdout.readline()
            address = re.search(r"http://(\S+)/;", line)
            assert address is not None, line
            assert "Ctrl-C" in line
            assert b"<html" in body_of(address[1])
            said = json.loads(body_of(address[1], "QUERY order COUNT"))
            assert said["rows"][0]["count"] > 100
        finally:
            demo.send_signal(signal.SIGTERM)
        assert demo.wait(START_MAX_S) == 0
