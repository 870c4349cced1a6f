"""A program that serves S3's API on a free port, and writes the port to the file it is told.

NOTE: moto (5.2.5) looks whether there is a file, and then writes it: on a machine under load two
who create one file at once may both succeed. So conditional writes take turns here, as AWS has it.
"""

import logging
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import make_server


class AtomicCreates:
    """moto's application, in which conditional writes take turns."""

    def __init__(self) -> None:
        # What finds the service that a request is for looks through all of moto's each time.
        self._moto: Any = create_backend_app("s3")
        self._turn = threading.Lock()

    def __call__(self, environment: Any, start: Any) -> Iterable[bytes]:
        if "HTTP_IF_NONE_MATCH" not in environment or environment["REQUEST_METHOD"] != "PUT":
            answer: Iterable[bytes] = self._moto(environment, start)
            return answer
        with self._turn:
            return list(self._moto(environment, start))


def main() -> None:
    """Serve until killed."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, AtomicCreates(), threaded=True)
    draft = Path(f"{sys.argv[1]}.draft")
    draft.write_text(str(server.server_port), encoding="utf-8")
    draft.replace(sys.argv[1])
    server.serve_forever()


if __name__ == "__main__":
    main()
