"""`idiolect join tls/HOST:PORT`: a device that learns with a server; `idiolect join flower`, by way of a SuperNode."""

import argparse
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import ask_for_data, ask_for_recipe, count, read_experiment, say, seed_settings
from idiolect.errors import Interrupted

_FLOWER = "flower"


def add(commands: Any) -> None:
    """Teach the command line `join`."""
    join = commands.add_parser("join", help="take part in what a server serves, with one's own data")
    join.set_defaults(command=_join)
    where = "where the server listens; flower: it calls, by a SuperNode of this machine"
    join.add_argument("endpoint", metavar="tls/HOST:PORT|flower", help=where)
    join.add_argument("--recipe", required=True, help="the same recipe as the server's")
    ask_for_recipe(join)
    join.add_argument("--algorithm", metavar="LABEL", help="which one, if the recipe has several")
    join.add_argument("--as", required=True, dest="name", metavar="NAME", help="the name in the certificate")
    join.add_argument("--keys", type=Path, metavar="DIR", help="the device's identity; default: keys/NAME")
    join.add_argument("--insecure", action="store_true", help="without keys, for tcp/127.0.0.1 only")
    join.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help="this device's rows: FILE.py:FUNCTION, a .csv, .tsv or .parquet file; recipe:N for trials",
    )
    join.add_argument("--state", type=Path, required=True, metavar="DIR", help="what the device keeps; it goes on")
    join.add_argument("--turns", type=count, metavar="N", help="leave after so many; default: when the server ends")
    join.add_argument("--no-scores", action="store_true", help="tell the server no scores")
    ask_for_data(join)


def _join(options: argparse.Namespace) -> int:
    from idiolect.commands.stopping import stopping_gently
    from idiolect.deploy.access import needs_zenoh
    from idiolect.deploy.assignment import assignment
    from idiolect.deploy.flower.resident import reside
    from idiolect.deploy.joining.membership import join

    if options.endpoint != _FLOWER:
        needs_zenoh()
    experiment = read_experiment(options, seed_settings(options))
    work = assignment(experiment, options.algorithm, options.data_dir, options.data)
    keys = None if options.insecure else options.keys or Path("keys") / options.name
    with stopping_gently(say) as stopping:
        told = {"turns": options.turns, "scores": not options.no_scores, "stop": stopping.asked, "notice": say}
        try:
            if options.endpoint == _FLOWER:
                why = reside(work, options.data, options.state, **told)
            else:
                why = join(work, options.endpoint, options.name, keys, options.data, options.state, **told)
        except Interrupted:
            why = "stopped"
    print(f"{options.name}: {why}; what it keeps is in {options.state}")
    return stopping.code if stopping.asked() else 0
