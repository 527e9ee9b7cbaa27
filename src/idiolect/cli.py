"""The command line: `idiolect list` and `idiolect run`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from idiolect.errors import Diverged, UserMistake


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake and a diverging run end with one sentence and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        _remember_compiled_programs()
        code: int = options.command(options)
        sys.stdout.flush()
        return code
    except (UserMistake, Diverged) as problem:
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
    run.add_argument("--timeline", type=Path, metavar="FILE", help="run on this timeline (CSV) instead of a drawn one")
    return parser


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
    from idiolect.report.terminal import print_summary, progress_bar
    from idiolect.runs import run_recipe
    from idiolect.runs.folder import next_free

    settings = [*options.settings, *_seed_settings(options)]
    if options.timeline is not None:
        settings.append(f"timeline={json.dumps(str(options.timeline.resolve()), ensure_ascii=False)}")
    recipe = load_recipe(options.recipe, settings)
    out = options.out or next_free(Path("runs"), recipe.name)
    try:
        with progress_bar(recipe) as progress:
            summary = run_recipe(recipe, out, data_dir=options.data_dir, progress=progress)
    except KeyboardInterrupt:
        print(
            f"\nidiolect: interrupted; what is finished is kept: the same command with --out {out} goes on",
            file=sys.stderr,
        )
        return 130
    print_summary(summary)
    for line in summary["advice"]:
        print(f"idiolect: note: {line}", file=sys.stderr)
    print(f"Run folder: {out}   summary: {out / 'summary.json'}   pictures: {out / 'pictures.html'}")
    return 0


def _seed_settings(options: argparse.Namespace) -> list[str]:
    text = options.seed if options.seed is not None else options.seeds
    if text is None:
        return []
    parts = text.split(",") if options.seeds is not None else [text]
    if not all(part.strip().isdecimal() for part in parts):
        raise UserMistake(f"seeds are '{text}', but must be whole numbers separated by commas, such as 0,1,2")
    return [f"seeds=[{','.join(part.strip() for part in parts)}]"]


def _first_sentence(factory: object) -> str:
    return (factory.__doc__ or "").strip().splitlines()[0]
