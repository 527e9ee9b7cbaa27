"""`idiolect watch RUN`: what is under way as a live page in the browser, from its folder's files alone."""

import argparse
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import say


def add(commands: Any) -> None:
    """Teach the command line `watch`."""
    watch = commands.add_parser("watch", help="show what is under way as a live page in the browser")
    watch.set_defaults(command=_watch)
    watch.add_argument(
        "run", type=Path, metavar="RUN", help="the folder of a run, of `idiolect serve` or of `idiolect network up`"
    )
    watch.add_argument("--port", type=int, metavar="N", help="default: 8470 or, if that is taken, any")
    watch.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen; default: 127.0.0.1, this machine only"
    )
    watch.add_argument("--open", action="store_true", help="open it in the browser")


def _watch(options: argparse.Namespace) -> int:
    import webbrowser

    from idiolect.watching import page_server, watcher

    look = watcher(options.run)
    look()  # what cannot be read now is told here, and not to a browser
    with page_server(look, host=options.host, port=options.port) as server:
        host = f"[{options.host}]" if ":" in options.host else options.host
        address = f"http://{host}:{server.server_address[1]}/"
        print(f"Watching {options.run}: {address}   (Ctrl-C to end)", flush=True)
        if options.host not in ("127.0.0.1", "::1", "localhost"):
            say("whoever reaches this address can see the run")
        if options.open:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
