"""`idiolect run` and `idiolect resume`: a recipe into a run folder, in one go or in several."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.commands.arguments import ask_for_data, ask_for_recipe, count, positive, say, seed_settings
from idiolect.errors import Interrupted

if TYPE_CHECKING:
    from idiolect.experiments.schema import Recipe


def add(commands: Any) -> None:
    """Teach the command line `run` and `resume`."""
    run = commands.add_parser("run", help="run a recipe (a TOML file or a built-in name)")
    run.set_defaults(command=_run)
    run.add_argument("recipe", nargs="?", default="demo", help="default: demo")
    ask_for_recipe(run)
    run.add_argument("--out", type=Path, metavar="DIR", help="the run folder; an unfinished run there goes on")
    run.add_argument("--timeline", type=Path, metavar="FILE", help="run on this timeline (CSV) instead of a drawn one")
    resume = commands.add_parser("resume", help="go on with a run that was interrupted, or killed")
    resume.set_defaults(command=_resume)
    resume.add_argument("out", type=Path, metavar="RUN", help="its folder")
    for command in (run, resume):
        ask_for_data(command)
        _add_survival(command)
        _add_place(command)


def _add_survival(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--checkpoint-every", type=positive, metavar="SECONDS", default=30.0, help="save the run so often; default: 30"
    )
    command.add_argument(
        "--client-memory", type=positive, metavar="GIB", default=2.0, help="what clients keep, beyond it on disk"
    )


def _add_place(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", choices=["simulator", "ray"], default="simulator", help="where clients work")
    command.add_argument(
        "--address", metavar="HOST:PORT", help="of a Ray cluster; without it, Ray runs on this machine"
    )
    command.add_argument("--actors", type=count, metavar="N", help="how many hold the clients' data; default: the CPUs")
    command.add_argument(
        "--clock", choices=["virtual", "real"], default="virtual", help="real: updates count as they arrive, in seconds"
    )


def _run(options: argparse.Namespace) -> int:
    from idiolect.experiments.recipe_files import load_recipe
    from idiolect.results.folder import next_free

    settings = [*options.settings, *seed_settings(options)]
    if options.timeline is not None:
        settings.append(f"timeline={json.dumps(str(options.timeline.resolve()), ensure_ascii=False)}")
    recipe = load_recipe(options.recipe, settings)
    return _go(recipe, options.out or next_free(Path("runs"), recipe.name), options)


def _resume(options: argparse.Namespace) -> int:
    from idiolect.results.folder import saved_recipe

    return _go(saved_recipe(options.out), options.out, options)


def _go(recipe: "Recipe", out: Path, options: argparse.Namespace) -> int:
    """Run what is missing of a recipe in its folder, and tell what it came to, or how to go on."""
    from idiolect.commands.stopping import stopping_gently
    from idiolect.experiments.places import Place
    from idiolect.report.terminal import print_summary, progress_bar
    from idiolect.results.checkpoint_files import Pace
    from idiolect.results.execute import run_recipe

    place = Place(options.engine, options.address, options.clock, options.actors)
    with stopping_gently(say) as stopping:
        try:
            with progress_bar(recipe) as progress:
                summary = run_recipe(
                    recipe,
                    out,
                    data_dir=options.data_dir,
                    progress=progress,
                    pace=Pace(seconds=options.checkpoint_every),
                    memory=int(options.client_memory * 2**30),
                    stop=stopping.asked,
                    notice=say,
                    place=place,
                )
        except (Interrupted, KeyboardInterrupt):
            data = f" --data-dir {options.data_dir}" if options.data_dir else ""
            where = "".join(f" --{name} {value}" for name, value in place.chosen().items())
            say(f"stopped; what is done is kept; go on with: idiolect resume {out}{data}{where}")
            return stopping.code
    print_summary(summary)
    for line in summary["advice"]:
        print(f"idiolect: note: {line}", file=sys.stderr)
    print(f"Run folder: {out}   summary: {out / 'summary.json'}   report: {out / 'report.html'}")
    return 0
