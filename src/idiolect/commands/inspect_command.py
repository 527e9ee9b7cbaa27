"""`idiolect inspect RECIPE`: a problem before training."""

import argparse
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import ask_for_data, ask_for_recipe, seed_settings


def add(commands: Any) -> None:
    """Teach the command line `inspect`, which shows the first of the seeds."""
    inspect = commands.add_parser(
        "inspect", help="show a problem before training: who holds what, and what it will take"
    )
    inspect.set_defaults(command=_inspect)
    inspect.add_argument("recipe", nargs="?", default="demo", help="a TOML file or a built-in name; default: demo")
    ask_for_recipe(inspect)
    ask_for_data(inspect)
    inspect.add_argument("--out", type=Path, metavar="FILE", help="the page; default: <recipe>-inspect.html, here")


def _inspect(options: argparse.Namespace) -> int:
    from idiolect.experiments.building import build_problem, check
    from idiolect.experiments.recipe_files import load_recipe
    from idiolect.inspection.cost_estimate import estimate
    from idiolect.inspection.inspection_page import may_write, write_page
    from idiolect.inspection.inspection_tables import print_inspection
    from idiolect.inspection.problem_inspection import inspect_problem

    recipe = load_recipe(options.recipe, [*options.settings, *seed_settings(options)])
    out = may_write(options.out or Path(f"{recipe.name}-inspect.html"))
    check(recipe, options.data_dir)
    seed = recipe.seeds[0]
    problem = build_problem(recipe, seed, options.data_dir)
    cost = estimate(recipe, problem)  # first, so that the memory it tells is that of a run
    found = inspect_problem(problem, batch_size=recipe.training.batch_size, seed=seed)
    print_inspection(recipe, found, cost)
    write_page(out, recipe, found, cost)
    print(f"Seed {seed}. Pictures: {out}")
    return 0
