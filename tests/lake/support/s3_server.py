"""A program that serves S3's API on a free port, and writes the port to the file it is told.

It is moto's server, which creates a file only where there is none, as AWS does.
"""

import logging
import sys
import threading
from pathlib import Path

from moto.server import ThreadedMotoServer


def main() -> None:
    """Serve until killed."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    draft = Path(f"{sys.argv[1]}.draft")
    draft.write_text(str(server.get_host_and_port()[1]), encoding="utf-8")
    draft.replace(sys.argv[1])
    threading.Event().wait()


if __name__ == "__main__":
    main()
