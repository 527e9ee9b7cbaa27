"""A small web server for one page. It is asked by browsers, which also show pages of others, and so it is strict.

It answers GET and nothing else, by a table of five addresses: no part of a request becomes the name of a file. A page
of somebody else's that gets a browser to come here under another name (DNS rebinding) is turned away by the Host
header, which must be a number or `localhost`, or the name that the server was given. The page may load nothing from
elsewhere and run no script but its own; it puts everything in as text.
"""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from urllib.parse import urlsplit

from plotly.offline import get_plotlyjs

from idiolect.errors import UserMistake
from idiolect.report.drawing import as_json
from idiolect.report.style import TEMPLATE
from idiolect.watching.view import View

PORT = 8470  # if nobody says otherwise, and it is free
_FRESH = 0.5  # seconds for which a view serves all who ask
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def page_server(look: Callable[[], View], *, host: str = "127.0.0.1", port: int | None = None) -> ThreadingHTTPServer:
    """A server of the page that shows what `look` sees; it answers once its `serve_forever` is called.

    Args:
        look: Such as `watcher` gives.
        host: Where it listens; anybody who reaches it there can see the page.
        port: Where it listens; without one, 8470 or, if that is taken, any.

    Returns:
        The server; `server_address` has its host and port.

    Example:
        >>> from idiolect.watching import View, page_server
        >>> with page_server(lambda: View("mine", "under way", "it has begun"), port=0) as server:
        ...     server.server_address[0]
        '127.0.0.1'
    """
    answers = _Answers(look, host)

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "idiolect", ""

        def do_GET(self) -> None:
            code, kind, content = answers.answer(self.path, self.headers.get("Host", ""))
            self.send_response(code)
            for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody wants to read that a page was asked for."""

    if port is not None:
        return _bound(host, port, Handler)
    try:
        return _bound(host, PORT, Handler)
    except UserMistake:
        return _bound(host, 0, Handler)


def _bound(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A browser that goes away in the middle of an answer is no news."""

    try:
        return Server((host, port), handler)
    except OSError as reason:
        raise UserMistake(f"--host {host} --port {port} cannot be listened at: {reason.strerror or reason}") from None
    except OverflowError:
        raise UserMistake(f"--port is {port}, but must be from 0 to 65535") from None


class _Answers:
    """What is answered to whom."""

    def __init__(self, look: Callable[[], View], host: str) -> None:
        self._look, self._host, self._lock = look, host, threading.Lock()
        self._at, self._last = -_FRESH, ""
        files, script = resources.files("idiolect.watching"), "text/javascript; charset=utf-8"
        styles = [
            resources.files("idiolect.report").joinpath("page.css").read_text("utf-8"),
            files.joinpath("watch.css").read_text("utf-8"),
        ]
        scripts = [
            f"const TEMPLATE = {as_json(TEMPLATE)};",
            resources.files("idiolect.report").joinpath("painting.js").read_text("utf-8"),
            files.joinpath("watch.js").read_text("utf-8"),
        ]
        self._files = {
            "/": ("text/html; charset=utf-8", files.joinpath("watch.html").read_bytes()),
            "/watch.css": ("text/css; charset=utf-8", "\n".join(styles).encode()),
            "/watch.js": (script, "\n".join(scripts).encode()),
            "/plotly.js": (script, str(get_plotlyjs()).encode()),
        }

    def answer(self, path: str, host: str) -> tuple[int, str, bytes]:
        """The code, the kind and the content of what is answered."""
        plain = "text/plain; charset=utf-8"
        if not _is_ours(host, self._host):
            return 403, plain, b"ask for this page by a number, by localhost, or by the name it was given\n"
        if path == "/state.json":
            return 200, "application/json; charset=utf-8", self._state().encode()
        kind, content = self._files.get(path, (plain, b""))
        return (200, kind, content) if content else (404, plain, b"there is no such page\n")

    def _state(self) -> str:
        with self._lock:  # one at a time: whoever asks together gets the same
            if time.monotonic() - self._at >= _FRESH:
                try:
                    self._last = self._look().as_json()
                except UserMistake as mistake:
                    self._last = View("", "cannot be read", str(mistake)).as_json()
                except Exception as reason:  # a page that is watched stays; the next look may be better
                    self._last = View("", "cannot be shown", f"this is a bug: {type(reason).__name__}").as_json()
                self._at = time.monotonic()
            return self._last


def _is_ours(header: str, given: str) -> bool:
    """Is this the Host of a browser that means us? A name that anybody could point here is not."""
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    if name in ("localhost", given.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
