"""How a request of HTTP becomes a WebSocket (RFC 6455, section 4); no extension is taken."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from hashlib import sha1
from http import HTTPStatus
from typing import Final

from connectors.serve.http_request import HttpRequest
from connectors.serve.refusals import RefusedError

PROTOCOL: Final = "shardlog"
_VERSION: Final = "13"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16
_HOW: Final = "GET /ws is for WebSockets alone; commands in plain HTTP go to POST /command"


def accepted(request: HttpRequest) -> dict[str, str]:
    """Return the headers of the answer that accepts a WebSocket.

    Raises:
        RefusedError: The request asks for none, or for one of another version.
    """
    headers = request.headers
    is_asked = "websocket" in _words(headers.get("upgrade", ""))
    if (
        request.method != "GET"
        or not is_asked
        or "upgrade" not in _words(headers.get("connection", ""))
    ):
        raise RefusedError(HTTPStatus.UPGRADE_REQUIRED, _HOW)
    if headers.get("sec-websocket-version") != _VERSION:
        message = f"this server speaks version {_VERSION} of WebSocket"
        raise RefusedError(HTTPStatus.UPGRADE_REQUIRED, message)
    key = headers.get("sec-websocket-key", "")
    if not _is_key(key):
        message = "Sec-WebSocket-Key is not 16 bytes in base64"
        raise RefusedError(HTTPStatus.BAD_REQUEST, message)
    # NOTE: RFC 6455 names SHA-1; nothing is kept secret by it.
    digest = sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    answer = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": b64encode(digest).decode(),
    }
    if PROTOCOL in _words(headers.get("sec-websocket-protocol", "")):
        answer["Sec-WebSocket-Protocol"] = PROTOCOL
    return answer


def _words(text: str) -> list[str]:
    return re.split(r"\s*,\s*", text.strip().lower())


def _is_key(text: str) -> bool:
    try:
        return len(b64decode(text, validate=True)) == _KEY_BYTES
    except (Error, ValueError):
        return False
