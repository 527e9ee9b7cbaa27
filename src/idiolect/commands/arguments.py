"""Command-line arguments that several commands share."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idiolect.errors import UserMistake, in_one_line

if TYPE_CHECKING:
    from idiolect.experiments.value import Experiment
    from idiolect.results.run import Run


RECIPE_HELP = "a TOML file, a built-in name, or file.py:function that makes an experiment; default: demo"


def ask_for_recipe(command: argparse.ArgumentParser, *, seeds: bool = True) -> None:
    """Settings on top of a recipe, code of one's own and, unless the command chooses them, seeds."""
    ask_for_code(command)
    ask_for_settings(command)
    if seeds:
        either = command.add_mutually_exclusive_group()
        either.add_argument("--seed", metavar="N", help="one seed instead of the recipe's")
        either.add_argument("--seeds", metavar="N,N,…", help="these seeds instead of the recipe's")


def ask_for_settings(command: argparse.ArgumentParser) -> None:
    """Settings on top of a recipe."""
    command.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="path.to.key=value",
        dest="settings",
        help="change a recipe, such as horizon=50 or algorithms.persa_fl_me.objective.lambda=25",
    )


def ask_for_code(command: argparse.ArgumentParser) -> None:
    """Modules and files of the user's that are imported because the command line names them."""
    command.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="FILE.py|MODULE",
        dest="code",
        help="import this first: it registers what the recipe names",
    )


def import_named(options: argparse.Namespace) -> None:
    """Import what the command line names, and say so before."""
    from idiolect.own_code import import_code

    for where in options.code:
        say(f"importing {where}, which the command line names")
        import_code(where)


def read_experiment(options: argparse.Namespace, settings: Sequence[str] = ()) -> "Experiment":
    """The experiment that a command names: a recipe, or a function of the user's that makes one."""
    from idiolect.experiments.recipe_files import load_recipe
    from idiolect.experiments.sources import made_by
    from idiolect.own_code import is_reference

    import_named(options)
    if not is_reference(options.recipe):
        return load_recipe(options.recipe, [*options.settings, *settings], notice=say)
    if options.settings or settings:
        raise UserMistake(
            f"--set and --seeds change recipes, but {options.recipe} is a function that makes an experiment"
        )
    say(f"importing {options.recipe}, which the command line names")
    return made_by(options.recipe)


def saved_experiment(options: argparse.Namespace, path: Path) -> "Experiment":
    """The experiment of a run folder, with the code that the command line names; a folder alone imports nothing."""
    from idiolect.experiments.sources import saved_source
    from idiolect.results.folder import saved_tables

    return saved_source(saved_tables(path), tuple(options.code), str(path), say)


def open_saved(options: argparse.Namespace) -> "Run":
    """A run folder whose models are wanted."""
    from idiolect.results.run import open_run

    return open_run(options.run, saved_experiment(options, options.run), data_dir=options.data_dir)


def ask_for_data(command: argparse.ArgumentParser) -> None:
    """Where data sets are looked for."""
    command.add_argument("--data-dir", type=Path, metavar="DIR", help="where data sets lie")


def seed_settings(options: argparse.Namespace) -> list[str]:
    """The settings for which --seed and --seeds are short."""
    text = options.seed if options.seed is not None else options.seeds
    if text is None:
        return []
    if options.seed is not None and not text.strip().isdecimal():
        raise UserMistake(f"--seed is '{text}', but must be a whole number, such as 0")
    return [f"seeds={seed_numbers(text)}"]


def seed_numbers(text: str) -> list[int]:
    """Seeds from a list such as 0,1,2; none comes twice."""
    seeds = numbers("--seeds", text)
    if len(set(seeds)) < len(seeds):
        raise UserMistake(f"--seeds is '{text}', but must be different whole numbers, such as 0,1,2")
    return seeds


def numbers(what: str, text: str) -> list[int]:
    """Whole numbers from a list such as 1,2,4."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UserMistake(f"{what} is '{text}', but must be whole numbers separated by commas, such as 1,2,4")
    return [int(part) for part in parts]


def count(text: str) -> int:
    """A whole number above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"is {text}, but must be a whole number, at least 1")
    return int(text)


def positive(text: str) -> float:
    """A number above zero."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"is {text}, but must be positive")
    return value


def say(sentence: str) -> None:
    """A sentence for whoever watches, beside the output."""
    print(f"idiolect: {in_one_line(sentence)}", file=sys.stderr)
