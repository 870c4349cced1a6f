"""An HTTP server whose answers a test sets, path by path, and which notes what it was asked."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from typing_extensions import override

PATIENT = 30.0


@dataclass
class Scripted:
    """Answers, each a status and a body, the last of a path again and again."""

    url: str
    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)

    def answer(self, path: str, body: Any, status: int = 200) -> None:
        self.answers.setdefault(path, []).append((status, body))

    def next(self, path: str) -> tuple[int, Any]:
        answers = self.answers.get(path)
        if answers is None:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return answers.pop(0) if len(answers) > 1 else answers[0]


@contextmanager
def scripted(tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """Run a server on a free port, with TLS if it is told how."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            script.requests.append(self.path)
            script.authorizations.append(self.headers.get("Authorization"))
            status, body = script.next(self.path)
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", body)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_GET  # noqa: N815 - the library's own name

        @override
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if tls is not None:
            scheme, server.socket = "https", tls.wrap_socket(server.socket, server_side=True)
        script = Scripted(f"{scheme}://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join(PATIENT)
