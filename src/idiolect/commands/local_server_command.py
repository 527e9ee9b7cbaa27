"""`idiolect network up | status | down RECIPE`: a server and its devices as processes of this machine."""

import argparse
import json
import time
import tomllib
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import read_experiment, seed_settings
from idiolect.errors import UserMistake

SERVER = "server"
_KEYS, _OUT = "keys", "out"


def is_recipe(file: Path) -> bool:
    """Is this a recipe, rather than a graph of peers?"""
    try:
        return not {"peers", "links"} & tomllib.loads(file.read_text("utf-8")).keys()
    except (OSError, ValueError):  # whoever reads it next says what is wrong
        return False


def start_server(options: argparse.Namespace, state: Path) -> int:
    """Make keys where there are none, and start the server and each device that does not run."""
    from idiolect.deploy import keys
    from idiolect.deploy.access import checked_endpoint, needs_zenoh
    from idiolect.deploy.assignment import assignment
    from idiolect.deploy.peers.local_network import start_processes

    needs_zenoh()
    options.recipe = str(options.graph)
    experiment = read_experiment(options, seed_settings(options))
    numbers = assignment(experiment, options.algorithm, options.data_dir).problem.clients.participating
    count = options.clients or len(numbers)
    if count > len(numbers):
        raise UserMistake(f"--clients is {count}, but {len(numbers)} clients take part in the recipe's training")
    listen, folder = checked_endpoint(options.listen), state / _KEYS
    if not folder.exists():
        keys.init(folder)
        keys.issue(folder, SERVER, hosts=["127.0.0.1", "localhost"])
    devices = {f"c{number}": number for number in numbers[:count]}
    for name in devices:
        if not (folder / name).exists():
            keys.issue(folder, name)
    common = _common(options)
    commands = {SERVER: ["serve", options.recipe, "--listen", listen, "--out", str(state / SERVER / _OUT), *common]}
    commands[SERVER] += [] if options.updates is None else ["--updates", str(options.updates)]
    for name, number in devices.items():
        mine = ["--as", name, "--data", f"recipe:{number}", "--state", str(state / name / "kept")]
        commands[name] = ["join", listen, "--recipe", options.recipe, *mine, *common]
    given = {name: [*words, "--keys", str(folder / name), *_settings(options)] for name, words in commands.items()}
    for name, pid in start_processes(state, given).items():
        print(f"{name}: process {pid}, {state / name}")
    print(f"Look: idiolect network status {options.graph}   End: idiolect network down {options.graph}")
    return 0


def show_server(state: Path) -> int:
    """Print who lives and what has come, as the server last wrote it down."""
    from idiolect.deploy.peers.local_network import living

    lives = living(state)
    if not lives:
        raise UserMistake(f"{state} has no processes; start them by: idiolect network up")
    path = state / SERVER / _OUT / "status.json"
    told: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    number = f", round {told['round']['number']}" if "round" in told else ""
    refused = sum(
        sum(reasons.values()) for who in ("refusals", "turned_away") for reasons in told.get(who, {}).values()
    )
    says = f"{told['updates']} updates{number}, {refused} refused" if told else "has said nothing yet"
    print(f"{SERVER}: {_state(lives[SERVER])}, {says}")
    for name in (name for name in lives if name != SERVER):
        print(f"{name}: {_state(lives[name])}{_device(told.get('devices', {}).get(name))}")
    print(f"{sum(lives.values())} of {len(lives)} live")
    return 0


def _state(lives: bool) -> str:
    return "lives" if lives else "has ended"


def _device(known: dict[str, Any] | None) -> str:
    if known is None:
        return ", not known to the server yet"
    heard = "" if known["heard"] is None else f", heard {max(0.0, time.time() - known['heard']):.0f} s ago"
    return f", client {known['number']}, last update of turn {known['last']}{heard}"


def _common(options: argparse.Namespace) -> list[str]:
    given = []
    for option in ("algorithm", "data_dir", "seed"):
        if getattr(options, option) is not None:
            given += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
    for code in options.code:
        given += ["--with", code]
    return given


def _settings(options: argparse.Namespace) -> list[str]:
    return ["--set", *options.settings] if options.settings else []
