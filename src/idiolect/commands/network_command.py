"""`idiolect network up | status | down | timeline`: peers of a graph, or a server and its devices, on this machine."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.commands.arguments import (
    RECIPE_HELP,
    ask_for_data,
    ask_for_recipe,
    count,
    read_experiment,
    say,
    seed_settings,
)
from idiolect.commands.local_server_command import is_recipe, show_server, start_server
from idiolect.commands.peer_command import ask_for_habits
from idiolect.errors import UserMistake

if TYPE_CHECKING:
    from idiolect.deploy.peers.graph_files import PeerGraph
    from idiolect.deploy.peers.peer_status import PeerStatus


def add(commands: Any) -> None:
    """Teach the command line `network`."""
    network = commands.add_parser("network", help="peers, or a server with devices, on this machine, for a first try")
    actions = network.add_subparsers(required=True, metavar="ACTION", help="what to do with the network")
    up = actions.add_parser("up", help="start everyone who does not run")
    status = actions.add_parser("status", help="who lives, how far each is, and what it weighs")
    down = actions.add_parser("down", help="end them")
    happened = actions.add_parser(
        "timeline", help="write what happened as a timeline, to be replayed by `idiolect run`"
    )
    for action, does in ((up, _up), (status, _status), (down, _down), (happened, _timeline)):
        action.set_defaults(command=does)
        action.add_argument(
            "graph",
            type=Path,
            metavar="FILE",
            help="a graph: who there is, and who sends to whom; or a recipe whose algorithm has a server",
        )
        action.add_argument(
            "--state", type=Path, metavar="DIR", help="where they keep what they are; default: beside it"
        )
    for action in (up, happened):
        action.add_argument("--recipe", help=f"of the peers of a graph: {RECIPE_HELP}")
        ask_for_recipe(action)
        ask_for_data(action)
    ask_for_habits(up)
    up.add_argument("--clients", type=count, metavar="N", help="with a server: how many devices; default: the recipe's")
    up.add_argument("--listen", default="tls/127.0.0.1:7447", metavar="tls/127.0.0.1:PORT", help="where it listens")
    up.add_argument("--updates", type=count, metavar="N", help="with a server: end after so many")
    happened.add_argument("--algorithm", metavar="LABEL", help="which of the recipe's; needed if there are several")
    happened.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="where it is written")


def _up(options: argparse.Namespace) -> int:
    if is_recipe(options.graph):
        return start_server(options, _state(options))
    from idiolect.deploy.access import needs_zenoh
    from idiolect.deploy.peers.local_network import start_processes
    from idiolect.deploy.peers.peer_setup import network_rules

    needs_zenoh()
    graph = _graph(options, insecure=options.insecure)
    if options.keys is None and not options.insecure:
        raise UserMistake("--keys is missing: the folder in which `idiolect keys issue` made a folder for each peer")
    _check_recipe(options)
    network_rules(read_experiment(options, seed_settings(options)), graph, options.algorithm, options.data_dir)
    state = _state(options)
    found = start_processes(state, {name: _arguments(options, name, state) for name in graph.names})
    for name, pid in found.items():
        print(f"{name}: process {pid}, {state / name}")
    print(f"Look: idiolect network status {options.graph}   End: idiolect network down {options.graph}")
    return 0


def _arguments(options: argparse.Namespace, name: str, state: Path) -> list[str]:
    """The command of one peer: as this one, with its own name, folder and keys."""
    given = ["peer", options.recipe, "--as", name, "--graph", str(options.graph), "--state", str(state / name)]
    given += ["--insecure"] if options.insecure else ["--keys", str(options.keys / name)]
    given += ["--repeat", str(options.repeat)]
    for option in ("algorithm", "pace", "leave", "impair", "data_dir", "seed"):
        if getattr(options, option) is not None:
            given += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
    for code in options.code:
        given += ["--with", code]
    return [*given, "--set", *options.settings] if options.settings else given


def _status(options: argparse.Namespace) -> int:
    if is_recipe(options.graph):
        return show_server(_state(options))
    from idiolect.deploy.peers.local_network import network_status

    found = network_status(_graph(options), _state(options))
    for one in found:
        print(_line(one))
    lit = sum(one.lives for one in found)
    weights = [one.told["y"] for one in found if one.told]
    print(f"{lit} of {len(found)} live; y with peers {sum(weights):.6f} of {len(found)}, the rest is on its way")
    return 0


def _line(one: "PeerStatus") -> str:
    if not one.told:
        return f"{one.name}: {one.doing}"
    told, silent = one.told, [f"{other} {seconds:.0f} s" for other, seconds in one.silent.items()]
    heard = f", last heard {', '.join(silent)}" if silent else ""
    scores = "".join(f", score after {name} steps {value:.4f}" for name, value in list(told["scores"].items())[-2:-1])
    reborn = f", incarnation {told['incarnation']}" if told["incarnation"] else ""
    refused = f", {sum(told['refused'].values())} letters refused" if told["refused"] else ""
    return f"{one.name}: {one.doing}, round {told['round']}, y {told['y']:.4f}{scores}{reborn}{heard}{refused}"


def _down(options: argparse.Namespace) -> int:
    from idiolect.deploy.peers.local_network import stop_network

    for name in stop_network(_state(options)):
        say(f"{name} did not end by itself, and was ended")
    return _status(options)


def _check_recipe(options: argparse.Namespace) -> None:
    if options.recipe is None:
        raise UserMistake(f"--recipe is missing: what the peers of {options.graph} learn")


def _timeline(options: argparse.Namespace) -> int:
    _check_recipe(options)
    from idiolect.deploy.peers.happened import read_log, rounds_that_happened
    from idiolect.deploy.peers.peer_setup import network_rules
    from idiolect.files import write_atomically
    from idiolect.network.round_files import write_rounds

    graph, state = _graph(options), _state(options)
    rules = network_rules(read_experiment(options, seed_settings(options)), graph, options.algorithm, options.data_dir)
    logs = {name: read_log(state / name) for name in graph.names}
    table = rounds_that_happened(graph.topology, graph.names, logs, rules.horizon)
    write_atomically(options.out, write_rounds(table))
    print(f"{options.out}: {int(table.awake.sum())} wakings and {len(table.link)} letters in {table.length} rounds")
    print(f"Replay: idiolect run {options.recipe} --timeline {options.out}")
    return 0


def _graph(options: argparse.Namespace, *, insecure: bool | None = None) -> "PeerGraph":
    from idiolect.deploy.peers.graph_files import read_graph

    return read_graph(options.graph, insecure=insecure)


def _state(options: argparse.Namespace) -> Path:
    where: Path = options.state or options.graph.with_name(f"{options.graph.stem}-state")
    return where
