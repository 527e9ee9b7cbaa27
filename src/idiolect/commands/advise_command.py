"""`idiolect advise`: bit widths for budgets of bytes, memory and time."""

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import ask_for_data, ask_for_recipe, numbers, read_experiment
from idiolect.errors import UserMistake


def add(commands: Any) -> None:
    """Teach the command line `advise`."""
    advise = commands.add_parser("advise", help="choose bit widths for what a device has, on validation data")
    advise.set_defaults(command=_advise)
    advise.add_argument("recipe", help="a recipe with an algorithm that has bit widths")
    advise.add_argument("--bytes", metavar="N,N,…", help="what a client's model may take as a file; or one for each")
    advise.add_argument("--memory", type=int, metavar="N", help="bytes that it may take in memory while it runs")
    advise.add_argument("--ms", type=float, metavar="X", help="milliseconds that a sample may take, on this machine")
    advise.add_argument(
        "--runs-in",
        choices=("numpy", "c", "onnx", "onnx int4", "onnx int8"),
        default="numpy",
        help="where memory and time are measured; default: numpy",
    )
    advise.add_argument("--widths", default="1,2,3,4", metavar="N,N,…", help="bits to try; default: 1,2,3,4")
    advise.add_argument("--algorithm", metavar="LABEL", help="which one, if the recipe has several")
    ask_for_recipe(advise, seeds=False)
    advise.add_argument("--out", type=Path, metavar="DIR", help="the run folder; an unfinished run there goes on")
    ask_for_data(advise)


def _advise(options: argparse.Namespace) -> int:
    from idiolect.export.measuring import measure_one
    from idiolect.inspection.advice_tables import print_advice
    from idiolect.inspection.width_advice import Limits, advise_widths
    from idiolect.report.progress import progress_bar
    from idiolect.results.beginning import claimed_folder

    limits = Limits(options.memory, options.ms)
    if options.bytes is None and limits == Limits():
        raise UserMistake("advise needs a budget: say --bytes, --memory or --ms")
    budgets = [None] if options.bytes is None else numbers("--bytes", options.bytes)
    widths = numbers("--widths", options.widths)
    experiment = read_experiment(options)
    claim = claimed_folder(Path("runs"), f"{experiment.name}-widths")
    with claim if options.out is None else nullcontext(options.out) as out:
        advice = advise_widths(
            experiment,
            budgets,
            widths,
            out=out,
            limits=limits,
            running=None if limits == Limits() else lambda run, label: measure_one(run, label, options.runs_in),
            label=options.algorithm,
            data_dir=options.data_dir,
            progress=progress_bar,
        )
    print_advice(advice, budgets)
    print(f"Run folder: {out}")
    return 0
