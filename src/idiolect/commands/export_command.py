"""`idiolect export` and `idiolect bundle`: clients' models, for devices."""

import argparse
from pathlib import Path
from typing import Any

from idiolect.commands.arguments import ask_for_code, ask_for_data, open_saved
from idiolect.errors import UserMistake


def add(commands: Any) -> None:
    """Teach the command line `export` and `bundle`."""
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
    ask_for_code(export)
    ask_for_data(export)
    bundle = commands.add_parser("bundle", help="check an exported bundle, and say what is in it")
    bundle.set_defaults(command=_bundle)
    bundle.add_argument("file", type=Path, help="*.safetensors")


def _export(options: argparse.Namespace) -> int:
    from idiolect.export.export_tables import print_shipped
    from idiolect.export.run_models import ship, ship_all

    run = open_saved(options)
    models = run.models(options.algorithm, options.seed)
    one = [] if options.all else [ship(run, models, options.client, options.out)]
    print_shipped(run, models, one or ship_all(run, models, options.out))
    return 0


def _bundle(options: argparse.Namespace) -> int:
    from idiolect.export.reader import BundleError, describe, read_bundle

    try:
        print(describe(read_bundle(options.file)))
    except BundleError as reason:
        raise UserMistake(str(reason)) from None
    return 0
