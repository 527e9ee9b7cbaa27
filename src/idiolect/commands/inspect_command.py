"""`idiolect inspect RECIPE`: a problem before training."""

import argparse
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import RECIPE_HELP, ask_for_data, ask_for_recipe, read_experiment, seed_settings


def add(commands: Any) -> None:
    """Teach the command line `inspect`, which shows the first of the seeds."""
    inspect = commands.add_parser(
        "inspect", help="show a problem before training: who holds what, and what it will take"
    )
    inspect.set_defaults(command=_inspect)
    inspect.add_argument("recipe", nargs="?", default="demo", help=RECIPE_HELP)
    ask_for_recipe(inspect)
    ask_for_data(inspect)
    inspect.add_argument("--out", type=Path, metavar="FILE", help="the page; default: <recipe>-inspect.html, here")


def _inspect(options: argparse.Namespace) -> int:
    from idiolect.inspection.experiment_inspection import inspect_experiment
    from idiolect.inspection.inspection_tables import print_inspection

    experiment = read_experiment(options, seed_settings(options))
    out = options.out or Path(f"{experiment.name}-inspect.html")
    found = inspect_experiment(experiment, page=out, data_dir=options.data_dir)
    print_inspection(experiment, *found)
    print(f"Seed {experiment.seeds[0]}. Pictures: {out}")
    return 0
