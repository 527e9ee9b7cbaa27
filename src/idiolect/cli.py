"""The command line: `idiolect list`, `run`, `resume`, `export`, `bundle`, `advise`, and `idiolect.commands`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idiolect.commands import compare, inspect, report, reproduce
from idiolect.errors import Diverged, Interrupted, Refused, UserMistake

if TYPE_CHECKING:
    from idiolect.recipes import Recipe


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake and a diverging run end with one sentence and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        _remember_compiled_programs()
        code: int = options.command(options)
        sys.stdout.flush()
        return code
    except (UserMistake, Diverged, Refused) as problem:
        print(f"idiolect: {problem}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="idiolect", description="Personalized learning across devices.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="name everything a recipe can choose from")
    listing.set_defaults(command=_list)
    run = commands.add_parser("run", help="run a recipe (a TOML file or a built-in name)")
    run.set_defaults(command=_run)
    run.add_argument("recipe", nargs="?", default="demo", help="default: demo")
    run.add_argument("--set", nargs="+", action="extend", default=[], metavar="path.to.key=value", dest="settings")
    seeds = run.add_mutually_exclusive_group()
    seeds.add_argument("--seed", metavar="N", help="one seed instead of the recipe's")
    seeds.add_argument("--seeds", metavar="N,N,…", help="these seeds instead of the recipe's")
    run.add_argument("--out", type=Path, metavar="DIR", help="the run folder; an unfinished run there goes on")
    run.add_argument("--data-dir", type=Path, metavar="DIR", help="where data sets lie")
    _add_survival(run)
    _add_place(run)
    run.add_argument("--timeline", type=Path, metavar="FILE", help="run on this timeline (CSV) instead of a drawn one")
    resume = commands.add_parser("resume", help="go on with a run that was interrupted, or killed")
    resume.set_defaults(command=_resume)
    resume.add_argument("out", type=Path, metavar="RUN", help="its folder")
    resume.add_argument("--data-dir", type=Path, metavar="DIR", help="where data sets lie")
    _add_survival(resume)
    _add_place(resume)
    export = commands.add_parser("export", help="write clients' models from a run folder, for devices")
    export.set_defaults(command=_export)
    export.add_argument("run", type=Path, help="a run folder")
    whose = export.add_mutually_exclusive_group(required=True)
    whose.add_argument("--client", type=int, metavar="I")
    whose.add_argument("--all", action="store_true", help="every client's, into the folder --out, with a table")
    export.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="*.safetensors, *.onnx, or both if bare"
    )
    export.add_argument("--algorithm", metavar="LABEL", help="which one, if the run has several")
    export.add_argument("--seed", type=int, metavar="N", help="default: the run's first")
    export.add_argument("--data-dir", type=Path, metavar="DIR", help="where data sets lie")
    bundle = commands.add_parser("bundle", help="check an exported bundle, and say what is in it")
    bundle.set_defaults(command=_bundle)
    bundle.add_argument("file", type=Path, help="*.safetensors")
    advise = commands.add_parser("advise", help="choose bit widths for byte budgets, on validation data")
    advise.set_defaults(command=_advise)
    advise.add_argument("recipe", help="a recipe with an algorithm that has bit widths")
    advise.add_argument(
        "--bytes", required=True, metavar="N,N,…", help="what a client's model may take; or one for each"
    )
    advise.add_argument("--widths", default="1,2,3,4", metavar="N,N,…", help="bits to try; default: 1,2,3,4")
    advise.add_argument("--algorithm", metavar="LABEL", help="which one, if the recipe has several")
    advise.add_argument("--set", nargs="+", action="extend", default=[], metavar="path.to.key=value", dest="settings")
    advise.add_argument("--out", type=Path, metavar="DIR", help="the run folder; an unfinished run there goes on")
    advise.add_argument("--data-dir", type=Path, metavar="DIR", help="where data sets lie")
    inspect.add(commands)
    compare.add(commands)
    reproduce.add(commands)
    report.add(commands)
    return parser


def _add_survival(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--checkpoint-every", type=_positive, metavar="SECONDS", default=30.0, help="save the run so often; default: 30"
    )
    command.add_argument(
        "--client-memory", type=_positive, metavar="GIB", default=2.0, help="what clients keep, beyond it on disk"
    )


def _add_place(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", choices=["simulator", "ray"], default="simulator", help="where clients work")
    command.add_argument(
        "--address", metavar="HOST:PORT", help="of a Ray cluster; without it, Ray runs on this machine"
    )
    command.add_argument(
        "--actors", type=_count, metavar="N", help="how many hold the clients' data; default: the CPUs"
    )
    command.add_argument(
        "--clock", choices=["virtual", "real"], default="virtual", help="real: updates count as they arrive, in seconds"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"is {text}, but must be a whole number, at least 1")
    return int(text)


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"is {text}, but must be positive")
    return value


def _remember_compiled_programs() -> None:
    """Keep what is compiled for later runs, unless the user has said where JAX is to keep it, or that it is not to."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or "JAX_ENABLE_COMPILATION_CACHE" in os.environ:
        return
    import jax
    import pooch

    settings = {
        "jax_compilation_cache_dir": str(pooch.os_cache("idiolect") / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0.3,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


def _list(options: argparse.Namespace) -> int:
    from idiolect import catalog
    from idiolect.recipes import builtin_recipes

    sections = {
        "algorithms": {name: f"{c.objective} + {c.protocol}: {c.source}" for name, c in catalog.ALGORITHMS.items()},
        "objectives": {name: _first_sentence(factory) for name, factory in catalog.OBJECTIVES.items()},
        "protocols": {name: _first_sentence(factory) for name, factory in catalog.PROTOCOLS.items()},
        "problems": dict.fromkeys(catalog.IMAGES, "images")
        | {name: _first_sentence(factory) for name, factory in catalog.SYNTHETIC.items()},
        "partitions": {name: _first_sentence(factory) for name, factory in catalog.PARTITIONS.items()},
        "topologies": {name: _first_sentence(factory) for name, factory in catalog.TOPOLOGIES.items()},
        "models": {name: _first_sentence(factory) for name, factory in catalog.MODELS.items()},
        "recipes": builtin_recipes(),
    }
    for title, entries in sections.items():
        print(f"{title}:")
        for name, text in entries.items():
            print(f"  {name:<20} {text}")
    print(
        "Any other cell of objectives x protocols is an algorithm too: write it objective+protocol, as maml+buffered."
    )
    return 0


def _run(options: argparse.Namespace) -> int:
    from idiolect.recipes import load_recipe
    from idiolect.runs.folder import next_free

    settings = [*options.settings, *seed_settings(options)]
    if options.timeline is not None:
        settings.append(f"timeline={json.dumps(str(options.timeline.resolve()), ensure_ascii=False)}")
    recipe = load_recipe(options.recipe, settings)
    return _go(recipe, options.out or next_free(Path("runs"), recipe.name), options)


def _resume(options: argparse.Namespace) -> int:
    from idiolect.runs.folder import saved_recipe

    return _go(saved_recipe(options.out), options.out, options)


def _go(recipe: "Recipe", out: Path, options: argparse.Namespace) -> int:
    """Run what is missing of a recipe in its folder, and tell what it came to, or how to go on."""
    from idiolect.places import Place
    from idiolect.report.terminal import print_summary, progress_bar
    from idiolect.runs import run_recipe
    from idiolect.runs.checkpoints import Pace
    from idiolect.runs.stopping import stopping_gently

    place = Place(options.engine, options.address, options.clock, options.actors)
    with stopping_gently(_say) as stopping:
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
                    notice=_say,
                    place=place,
                )
        except (Interrupted, KeyboardInterrupt):
            data = f" --data-dir {options.data_dir}" if options.data_dir else ""
            where = "".join(f" --{name} {value}" for name, value in place.chosen().items())
            _say(f"stopped; what is done is kept; go on with: idiolect resume {out}{data}{where}")
            return stopping.code
    print_summary(summary)
    for line in summary["advice"]:
        print(f"idiolect: note: {line}", file=sys.stderr)
    print(f"Run folder: {out}   summary: {out / 'summary.json'}   report: {out / 'report.html'}")
    return 0


def _export(options: argparse.Namespace) -> int:
    from idiolect.report.terminal import print_shipped
    from idiolect.runs.models import open_run
    from idiolect.runs.shipping import ship, ship_all

    finished = open_run(options.run, options.algorithm, options.seed, options.data_dir)
    shipped = ship_all(finished, options.out) if options.all else [ship(finished, options.client, options.out)]
    print_shipped(finished, shipped)
    return 0


def _bundle(options: argparse.Namespace) -> int:
    from idiolect.export.reader import BundleError, describe, read_bundle

    try:
        print(describe(read_bundle(options.file)))
    except BundleError as reason:
        raise UserMistake(str(reason)) from None
    return 0


def _advise(options: argparse.Namespace) -> int:
    from idiolect.recipes import load_recipe
    from idiolect.report.terminal import print_advice, progress_bar
    from idiolect.runs.folder import next_free
    from idiolect.runs.widths import advise

    budgets, widths = _numbers("--bytes", options.bytes), _numbers("--widths", options.widths)
    recipe = load_recipe(options.recipe, options.settings)
    out = options.out or next_free(Path("runs"), f"{recipe.name}-widths")
    advice = advise(recipe, options.algorithm, budgets, widths, out, data_dir=options.data_dir, progress=progress_bar)
    print_advice(advice, budgets)
    print(f"Run folder: {out}")
    return 0


def _numbers(what: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UserMistake(f"{what} is '{text}', but must be whole numbers separated by commas, such as 1,2,4")
    return [int(part) for part in parts]


def seed_settings(options: argparse.Namespace) -> list[str]:
    """The settings for which --seed and --seeds are short."""
    text = options.seed if options.seed is not None else options.seeds
    if text is None:
        return []
    parts = text.split(",") if options.seeds is not None else [text]
    if not all(part.strip().isdecimal() for part in parts):
        raise UserMistake(f"seeds are '{text}', but must be whole numbers separated by commas, such as 0,1,2")
    return [f"seeds=[{','.join(part.strip() for part in parts)}]"]


def _say(sentence: str) -> None:
    print(f"idiolect: {sentence}", file=sys.stderr)


def _first_sentence(factory: object) -> str:
    return (factory.__doc__ or "").strip().splitlines()[0]
