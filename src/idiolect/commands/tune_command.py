"""`idiolect tune RECIPE`: settings for every algorithm, chosen on validation parts by the same number of trials."""

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.commands.arguments import (
    RECIPE_HELP,
    ask_for_code,
    ask_for_data,
    ask_for_settings,
    count,
    read_experiment,
    say,
    seed_numbers,
)
from idiolect.errors import Interrupted

if TYPE_CHECKING:
    from idiolect.tuning import Study


def add(commands: Any) -> None:
    """Teach the command line `tune`."""
    tune = commands.add_parser("tune", help="choose settings on validation data, by the same number of trials for each")
    tune.set_defaults(command=_tune)
    tune.add_argument("recipe", help=RECIPE_HELP.removesuffix("; default: demo"))
    tune.add_argument(
        "--search",
        action="append",
        required=True,
        metavar="PATH=SPEC",
        help="such as training.step_size=log:0.01:1 or algorithms.persa_fl_me.objective.lambda=log:1:100",
    )
    tune.add_argument("--trials", type=count, default=20, metavar="N", help="for every algorithm; default: 20")
    tune.add_argument(
        "--seeds", required=True, metavar="N,N,…", help="to choose on; none of those that are scored later"
    )
    tune.add_argument(
        "--halving",
        type=int,
        default=0,
        metavar="ETA",
        help="such as 3: of nine trials three go on after 1/9 of the horizon, and one after 1/3; default: 0, all go on",
    )
    tune.add_argument("--jobs", type=count, default=1, metavar="N", help="trials at once, to the same end; default: 1")
    tune.add_argument("--out", type=Path, required=True, metavar="DIR", help="what is finished there is not run again")
    ask_for_settings(tune)
    ask_for_code(tune)
    ask_for_data(tune)


def _tune(options: argparse.Namespace) -> int:
    from idiolect.commands.stopping import stopping_gently
    from idiolect.experiments.describing import write_experiment
    from idiolect.files import write_atomically
    from idiolect.tuning import read_search, tune
    from idiolect.tuning.tuning_page import PAGE, tuning_page

    searches, experiment = [read_search(text) for text in options.search], read_experiment(options)

    def tell(label: str, done: int, score: float | None) -> None:
        say(f"{label}: trial {done} of {options.trials}, {'came to nothing' if score is None else f'{score:.4f}'}")

    with stopping_gently(say) as stopping:
        try:
            tuned, studies = tune(
                experiment,
                searches,
                trials=options.trials,
                seeds=seed_numbers(options.seeds),
                out=options.out,
                data_dir=options.data_dir,
                halving=options.halving,
                jobs=options.jobs,
                code=options.code,
                progress=tell,
                stop=stopping.asked,
            )
        except (Interrupted, KeyboardInterrupt):
            say("stopped; finished trials are kept; the same command goes on")
            return stopping.code
    recipe = options.out / "recipe.toml"
    write_atomically(recipe, write_experiment(tuned).encode())
    write_atomically(options.out / "trials.csv", _table(studies).encode())
    assert tuned.chosen is not None
    shown = tuning_page(experiment.name, tuned.chosen, studies, searches)
    write_atomically(options.out / PAGE, shown.encode())
    for study in studies:
        best = ", ".join(f"{name} {value}" for name, value in study.best.settings.items()) or "as it is"
        print(f"{study.label}: {study.best.score:.4f} with {best}")
    if tuned.chosen.note:
        print(tuned.chosen.note)
    print(f"Recipe: {recipe}   trials: {options.out / 'trials.csv'}   page: {options.out / PAGE}")
    return 0


def _table(studies: "list[Study]") -> str:
    """Every trial, one a row."""
    names = dict.fromkeys(name for study in studies for trial in study.trials for name in trial.settings)
    text = io.StringIO()
    writer = csv.DictWriter(text, ["algorithm", "trial", "score", "share", *names], lineterminator="\n")
    writer.writeheader()
    for study in studies:
        for number, trial in enumerate(study.trials):
            score = "" if trial.score is None else trial.score
            known = {"algorithm": study.label, "trial": number, "score": score, "share": f"{trial.share:.4g}"}
            writer.writerow({**known, **trial.settings})
    return text.getvalue()
