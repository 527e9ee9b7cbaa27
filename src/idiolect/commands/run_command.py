"""`idiolect run` and `idiolect resume`: a recipe into a run folder, in one go or in several."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.commands.arguments import (
    RECIPE_HELP,
    ask_for_code,
    ask_for_data,
    ask_for_recipe,
    count,
    positive,
    read_experiment,
    saved_experiment,
    say,
    seed_settings,
)
from idiolect.errors import Interrupted

if TYPE_CHECKING:
    from idiolect.experiments.places import Place
    from idiolect.experiments.value import Experiment


DIVERGED = 3  # the exit code of a run that is finished, but for algorithms that diverged
_CODES = (
    "Exit codes: 0 all is finished; 2 a mistake, told in one sentence; 3 all is finished, but an algorithm diverged, "
    "and its end is its result; 130 or 143 stopped by Ctrl-C or SIGTERM, and what is done is kept."
)


def add(commands: Any) -> None:
    """Teach the command line `run` and `resume`."""
    run = commands.add_parser("run", help="run an experiment into a folder", epilog=_CODES)
    run.set_defaults(command=_run)
    run.add_argument("recipe", nargs="?", default="demo", help=RECIPE_HELP)
    ask_for_recipe(run)
    run.add_argument("--out", type=Path, metavar="DIR", help="the run folder; an unfinished run there goes on")
    run.add_argument(
        "--take-from", type=Path, metavar="RUN", help="a run whose cells with the same settings are taken over"
    )
    run.add_argument("--timeline", type=Path, metavar="FILE", help="run on this timeline (CSV) instead of a drawn one")
    resume = commands.add_parser("resume", help="go on with a run that was interrupted, or killed", epilog=_CODES)
    resume.set_defaults(command=_resume)
    resume.add_argument("out", type=Path, metavar="RUN", help="its folder")
    ask_for_code(resume)
    for command in (run, resume):
        ask_for_data(command)
        _add_survival(command)
        _add_place(command)
        command.add_argument(
            "--track",
            action="append",
            default=[],
            choices=["tensorboard", "mlflow", "wandb"],
            help="tell this tracker of every point as the run goes on; may be given more than once",
        )


def _add_survival(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--checkpoint-every", type=positive, metavar="SECONDS", default=30.0, help="save the run so often; default: 30"
    )
    command.add_argument(
        "--client-memory", type=positive, metavar="GIB", default=2.0, help="what clients keep, beyond it on disk"
    )
    command.add_argument("--yes", action="store_true", help="run even what takes more than a day at least")


def _add_place(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", choices=["simulator", "ray"], default="simulator", help="where clients work")
    command.add_argument(
        "--address", metavar="HOST:PORT", help="of a Ray cluster; without it, Ray runs on this machine"
    )
    command.add_argument("--actors", type=count, metavar="N", help="how many hold the clients' data; default: the CPUs")
    command.add_argument(
        "--patience",
        type=positive,
        metavar="SECONDS",
        default=600.0,
        help="an actor that does not answer for so long is replaced; default: 600",
    )
    command.add_argument(
        "--clock", choices=["virtual", "real"], default="virtual", help="real: updates count as they arrive, in seconds"
    )


def _run(options: argparse.Namespace) -> int:
    from idiolect.results.beginning import claimed_folder

    settings = seed_settings(options)
    if options.timeline is not None:
        settings.append(f"timeline={json.dumps(str(options.timeline.resolve()), ensure_ascii=False)}")
    experiment = read_experiment(options, settings)
    if options.out is not None:
        return _take_and_go(experiment, options.out, options)
    with claimed_folder(Path("runs"), experiment.name) as out:
        return _take_and_go(experiment, out, options)


def _take_and_go(experiment: "Experiment", out: Path, options: argparse.Namespace) -> int:
    if options.take_from is not None:
        from idiolect.interface import take_over

        taken = take_over(experiment, out=out, other=options.take_from, data_dir=options.data_dir)
        say(f"{taken} of {len(experiment.labels) * len(experiment.seeds)} cells are taken from {options.take_from}")
    return _go(experiment, out, options)


def _resume(options: argparse.Namespace) -> int:
    return _go(saved_experiment(options, options.out), options.out, options)


def _go(experiment: "Experiment", out: Path, options: argparse.Namespace) -> int:
    """Run what is missing of an experiment in its folder, and tell what it came to, or how to go on."""
    from idiolect.commands.stopping import stopping_gently
    from idiolect.experiments.places import Place
    from idiolect.interface import run
    from idiolect.report.progress import progress_bar
    from idiolect.report.terminal import print_summary
    from idiolect.results.checkpoint_files import Pace
    from idiolect.results.folder import RunFolder
    from idiolect.tracking import listening

    place = Place(options.engine, options.address, options.clock, options.actors, options.patience)
    with stopping_gently(say) as stopping:
        try:
            finished = RunFolder(out).count(experiment)
            with (
                listening(options.track, experiment, out, say) as listen,
                progress_bar(experiment, finished) as progress,
            ):
                found = run(
                    experiment,
                    out=out,
                    data_dir=options.data_dir,
                    place=place,
                    code=options.code,
                    progress=progress,
                    listen=listen,
                    pace=Pace(seconds=options.checkpoint_every),
                    memory=int(options.client_memory * 2**30),
                    stop=stopping.asked,
                    notice=say,
                    yes=options.yes,
                )
        except (Interrupted, KeyboardInterrupt):
            say(f"stopped; what is done is kept; go on with: idiolect resume {out}{_again(place, options)}")
            return stopping.code
    print_summary(found.summary)
    for line in found.summary.advice:
        print(f"idiolect: note: {line}", file=sys.stderr)
    print(f"Run folder: {out}   summary: {out / 'summary.json'}   report: {out / 'report.html'}")
    if found.diverged:
        told = ", ".join(f"{cell.label} with seed {cell.seed}" for cell in found.diverged)
        say(f"{len(found.diverged)} of {len(experiment.labels) * len(experiment.seeds)} cells diverged: {told}")
    return DIVERGED if found.diverged else 0


def _again(place: "Place", options: argparse.Namespace) -> str:
    """The options with which the same run goes on."""
    code = "".join(f" --with {where}" for where in options.code)
    data = f" --data-dir {options.data_dir}" if options.data_dir else ""
    data += "".join(f" --track {name}" for name in options.track)
    return code + data + "".join(f" --{name} {value}" for name, value in place.chosen().items())
