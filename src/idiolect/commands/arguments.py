"""What several commands ask for in the same words."""

import argparse
import sys
from pathlib import Path

from idiolect.errors import UserMistake


def ask_for_recipe(command: argparse.ArgumentParser, *, seeds: bool = True) -> None:
    """A recipe, settings on top of it and, unless the command chooses them, its seeds."""
    command.add_argument("--set", nargs="+", action="extend", default=[], metavar="path.to.key=value", dest="settings")
    if seeds:
        either = command.add_mutually_exclusive_group()
        either.add_argument("--seed", metavar="N", help="one seed instead of the recipe's")
        either.add_argument("--seeds", metavar="N,N,…", help="these seeds instead of the recipe's")


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
    print(f"idiolect: {sentence}", file=sys.stderr)
