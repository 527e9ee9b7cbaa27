"""`idiolect advise`: bit widths for byte budgets."""

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import ask_for_data, ask_for_recipe, numbers, read_experiment


def add(commands: Any) -> None:
    """Teach the command line `advise`."""
    advise = commands.add_parser("advise", help="choose bit widths for byte budgets, on validation data")
    advise.set_defaults(command=_advise)
    advise.add_argument("recipe", help="a recipe with an algorithm that has bit widths")
    advise.add_argument(
        "--bytes", required=True, metavar="N,N,…", help="what a client's model may take; or one for each"
    )
    advise.add_argument("--widths", default="1,2,3,4", metavar="N,N,…", help="bits to try; default: 1,2,3,4")
    advise.add_argument("--algorithm", metavar="LABEL", help="which one, if the recipe has several")
    ask_for_recipe(advise, seeds=False)
    advise.add_argument("--out", type=Path, metavar="DIR", help="the run folder; an unfinished run there goes on")
    ask_for_data(advise)


def _advise(options: argparse.Namespace) -> int:
    from idiolect.inspection.advice_tables import print_advice
    from idiolect.inspection.width_advice import advise_widths
    from idiolect.report.terminal import progress_bar
    from idiolect.results.beginning import claimed_folder

    budgets, widths = numbers("--bytes", options.bytes), numbers("--widths", options.widths)
    experiment = read_experiment(options)
    claim = claimed_folder(Path("runs"), f"{experiment.name}-widths")
    with claim if options.out is None else nullcontext(options.out) as out:
        advice = advise_widths(
            experiment,
            budgets,
            widths,
            out=out,
            label=options.algorithm,
            data_dir=options.data_dir,
            progress=progress_bar,
        )
    print_advice(advice, budgets)
    print(f"Run folder: {out}")
    return 0
