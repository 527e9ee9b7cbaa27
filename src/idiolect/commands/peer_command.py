"""`idiolect peer`: an agent without a server, on its own machine."""

import argparse
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import (
    RECIPE_HELP,
    ask_for_data,
    ask_for_recipe,
    positive,
    read_experiment,
    say,
    seed_settings,
)
from idiolect.errors import UserMistake


def add(commands: Any) -> None:
    """Teach the command line `peer`."""
    peer = commands.add_parser("peer", help="be one of the peers of a network without a server")
    peer.set_defaults(command=_peer)
    peer.add_argument("recipe", help=RECIPE_HELP)
    ask_for_recipe(peer)
    ask_for_data(peer)
    peer.add_argument("--as", required=True, metavar="NAME", dest="name", help="which peer of the graph, such as a3")
    peer.add_argument("--graph", required=True, type=Path, metavar="FILE", help="who there is, and who sends to whom")
    peer.add_argument("--state", required=True, type=Path, metavar="DIR", help="where the peer keeps what it is")
    peer.add_argument(
        "--data",
        metavar="FILE",
        help="this peer's rows: FILE.py:FUNCTION, a .csv, .tsv or .parquet file; default: the recipe's",
    )
    ask_for_habits(peer)


def ask_for_habits(command: argparse.ArgumentParser) -> None:
    """How peers behave, for one of them or for all."""
    command.add_argument("--algorithm", metavar="LABEL", help="which of the recipe's; needed if there are several")
    command.add_argument("--keys", type=Path, metavar="DIR", help="the folder that `idiolect keys issue` made")
    command.add_argument("--insecure", action="store_true", help="without TLS; only on this machine (tcp/127.0.0.1)")
    command.add_argument(
        "--repeat", type=positive, metavar="SECONDS", default=1.0, help="say the last letter again so often; default: 1"
    )
    command.add_argument(
        "--pace", type=positive, metavar="SECONDS", help="between two wakings, at least; default: none"
    )
    command.add_argument(
        "--leave",
        type=positive,
        metavar="SECONDS",
        help="after the last round; default: stay, and repeat what was said",
    )
    command.add_argument(
        "--impair", metavar="loss=0.3,doubles=0.1,delay=0.5,seed=1", help="for trials: mistreat what arrives"
    )


def _peer(options: argparse.Namespace) -> int:
    from idiolect.commands.stopping import stopping_gently
    from idiolect.deploy.access import needs_zenoh
    from idiolect.deploy.peers.graph_files import read_graph
    from idiolect.deploy.peers.impairment import read_impairment
    from idiolect.deploy.peers.live_peer import Habits
    from idiolect.deploy.peers.peer_process import Where, run_peer
    from idiolect.deploy.peers.peer_setup import OwnRows, network_rules, set_up_peer

    needs_zenoh()
    graph = read_graph(options.graph, insecure=options.insecure)
    if options.keys is None and not options.insecure:
        raise UserMistake("--keys is missing: the folder that `idiolect keys issue` made for this peer")
    impairment = None if options.impair is None else read_impairment(options.impair)
    experiment = read_experiment(options, seed_settings(options))
    mine = None if options.data is None else OwnRows(options.name, options.data)
    rules = network_rules(experiment, graph, options.algorithm, options.data_dir, mine)
    setup = set_up_peer(experiment, graph, options.name, rules)
    where = Where(graph, options.state, None if options.insecure else options.keys, impairment)
    repeat = options.repeat
    habits = Habits(repeat, options.pace or 0.0, 5 * repeat, max(30.0, 20 * repeat), options.leave)
    with stopping_gently(say) as stopping:
        status = run_peer(setup, where, habits, stop=stopping.asked, say=say)
    headline = status["scores"].get(setup.plan.headline)
    print(
        f"{options.name}: round {status['round']} of {status['horizon']}, {status['wakings']} wakings, "
        f"y {status['y']:.6f}, score {'none' if headline is None else f'{headline:.4f}'}"
    )
    return stopping.code if stopping.asked() else 0
