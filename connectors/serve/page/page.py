"""The page at `/`: its sources as one document, and the headers that it is sent with.

    shell.html       what is there before a script runs; /*style*/ and /*script*/ are put in
    look.css         light and dark, wide and narrow
    *.js             one scope for all, in the order of SCRIPTS

The document needs nothing else: no other origin, no request beside those of its own server. Its
Content-Security-Policy names the digests of its only style and its only script, so that nothing
that a server's rows say can run; Trusted Types keep them from becoming HTML.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

SCRIPTS: Final = (
    *("elements", "server", "language", "editor", "table", "chart"),
    *("answers", "types", "live", "board", "start"),
)
_PLACE: Final = Path(__file__).parent
_STYLE: Final = "/*style*/"
_SCRIPT: Final = "/*script*/"


@dataclass(frozen=True, slots=True)
class Page:
    """The page.

    Attributes:
        headers: What it is sent with.
        body: The document.
    """

    headers: Mapping[str, str]
    body: bytes


@cache
def page() -> Page:
    """Return the page; it is put together once."""
    style = _source("look.css")
    parts = "\n".join(_source(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{parts}\n}})();\n'
    document = _source("shell.html").replace(_STYLE, style).replace(_SCRIPT, script)
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Cache-Control": "no-cache",
        "Content-Security-Policy": _policy(style, script),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return Page(headers, document.encode())


def _source(name: str) -> str:
    return (_PLACE / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    rules = (
        *("default-src 'none'", "connect-src 'self'", "img-src data:"),
        *(f"style-src {_digest(style)}", f"script-src {_digest(script)}"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        *("require-trusted-types-for 'script'", "trusted-types 'none'"),
    )
    return "; ".join(rules)


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
