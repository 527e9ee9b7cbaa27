"""`idiolect keys init | issue NAME | revoke NAME`: who belongs to a deployment."""

import argparse
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import count


def add(commands: Any) -> None:
    """Teach the command line `keys`."""
    keys = commands.add_parser("keys", help="make keys and certificates for the machines of a deployment")
    actions = keys.add_subparsers(required=True, metavar="ACTION", help="what to do with keys")
    init = actions.add_parser("init", help="make a certificate authority")
    issue = actions.add_parser("issue", help="make a folder with a key and a certificate, to be copied to a machine")
    revoke = actions.add_parser("revoke", help="take back all certificates of a machine")
    for action, does in ((init, _init), (issue, _issue), (revoke, _revoke)):
        action.set_defaults(command=does)
        action.add_argument("--folder", type=Path, default=Path("keys"), metavar="DIR", help="default: keys")
    for action in (issue, revoke):
        action.add_argument("name", metavar="NAME", help="of the machine, such as alice")
    init.add_argument("--days", type=count, default=3650, metavar="N", help="how long it lasts; default: 3650")
    issue.add_argument("--days", type=count, default=90, metavar="N", help="how long it lasts; default: 90")
    issue.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="an address or a name by which others connect to it; a machine that nobody connects to has none",
    )


def _init(options: argparse.Namespace) -> int:
    from idiolect.deploy.keys import init

    print(f"Authority: {init(options.folder, days=options.days)}   keep ca-key.pem there secret, and back it up")
    return 0


def _issue(options: argparse.Namespace) -> int:
    from idiolect.deploy.keys import issue

    place = issue(options.folder, options.name, hosts=options.host, days=options.days)
    print(f"Identity: {place}   copy it to {options.name}, and {options.folder / 'roster.json'} to those who listen")
    return 0


def _revoke(options: argparse.Namespace) -> int:
    from idiolect.deploy.keys import revoke

    gone = revoke(options.folder, options.name)
    print(f"Revoked: {', '.join(gone)}   copy {options.folder / 'roster.json'} to those who listen")
    return 0
