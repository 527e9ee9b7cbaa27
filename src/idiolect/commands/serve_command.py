"""`idiolect serve RECIPE`: a server for real devices."""

import argparse
import math
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import (
    ask_for_data,
    ask_for_recipe,
    count,
    positive,
    read_experiment,
    say,
    seed_settings,
)
from idiolect.errors import UserMistake


def add(commands: Any) -> None:
    """Teach the command line `serve`."""
    serve = commands.add_parser("serve", help="serve an experiment's algorithm to real devices")
    serve.set_defaults(command=_serve)
    serve.add_argument("recipe", help="a recipe, which the devices have as well")
    ask_for_recipe(serve)
    serve.add_argument("--algorithm", metavar="LABEL", help="which one, if the recipe has several")
    serve.add_argument("--listen", required=True, metavar="tls/HOST:PORT", help="where devices connect")
    serve.add_argument("--keys", type=Path, default=Path("keys/server"), metavar="DIR", help="default: keys/server")
    serve.add_argument("--insecure", action="store_true", help="without keys, for tcp/127.0.0.1 only")
    serve.add_argument("--out", type=Path, required=True, metavar="DIR", help="the server's folder; it goes on there")
    serve.add_argument("--updates", type=count, metavar="N", help="end after so many; default: when asked to stop")
    serve.add_argument("--score-every", type=count, metavar="N", help="ask devices for scores after so many updates")
    serve.add_argument(
        "--stale-after", type=count, metavar="N", default=10_000, help="refuse updates so many versions old; 10000"
    )
    serve.add_argument(
        "--deadline", type=positive, metavar="SECONDS", help="close a round without those who are later; default: 60"
    )
    serve.add_argument("--quorum", type=count, metavar="N", help="if it has so many; default: as in simulations")
    ask_for_data(serve)


def _serve(options: argparse.Namespace) -> int:
    from idiolect.commands.stopping import stopping_gently
    from idiolect.deploy.access import needs_zenoh
    from idiolect.deploy.assignment import assignment
    from idiolect.deploy.serving.serving_folder import serve
    from idiolect.deploy.serving.turned_away import Rules
    from idiolect.network.timelines import read_timeline

    needs_zenoh()
    experiment = read_experiment(options, seed_settings(options))
    work = assignment(experiment, options.algorithm, options.data_dir)
    rounds = {name: getattr(options, name) for name in ("deadline", "quorum") if getattr(options, name) is not None}
    if rounds and not work.program.protocol.schedule.rounds:
        raise UserMistake(f"--{next(iter(rounds))} is for protocols with rounds, and {work.label} has none")
    rules = Rules(stale_after=options.stale_after, score_every=options.score_every or 0)._replace(**rounds)
    with stopping_gently(say) as stopping:
        timeline = serve(
            work,
            options.out,
            options.listen,
            None if options.insecure else options.keys,
            rules=rules,
            updates=options.updates,
            stop=stopping.asked,
            notice=say,
        )
    print(f"Server folder: {options.out}   status: {options.out / 'status.json'}")
    if timeline is not None:
        end = math.ceil(read_timeline(timeline).arrived.max())
        print(f"Replay with: idiolect run {options.recipe} --timeline {timeline} --set horizon={end}")
    return stopping.code if stopping.asked() else 0
