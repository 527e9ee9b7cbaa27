"""`idiolect export` and `idiolect bundle`: clients' models, for devices."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.commands.arguments import ask_for_code, ask_for_data, open_saved
from idiolect.errors import UserMistake

if TYPE_CHECKING:
    from idiolect.results.export_files import Measured
    from idiolect.results.run import Run


def add(commands: Any) -> None:
    """Teach the command line `export` and `bundle`."""
    export = commands.add_parser("export", help="write clients' models from a run folder, for devices")
    export.set_defaults(command=_export)
    export.add_argument("run", type=Path, help="a run folder")
    whose = export.add_mutually_exclusive_group(required=True)
    whose.add_argument("--client", type=int, metavar="I", help="this client's own model")
    whose.add_argument("--all", action="store_true", help="every client's, into the folder --out, with a table")
    whose.add_argument("--shared", action="store_true", help="the model that clients share, before anybody adapts it")
    export.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="*.safetensors, *.onnx, *.c, or the first two if bare"
    )
    export.add_argument("--c", action="store_true", help="also as a C array, with a reader in C99 beside it")
    export.add_argument("--int4", action="store_true", help="also as ONNX with dense layers in four bits, not exact")
    export.add_argument("--int8", action="store_true", help="also as ONNX in eight bits throughout, not exact")
    export.add_argument("--sign", type=Path, metavar="KEY", help="sign bundles by this private key (Ed25519, PEM)")
    export.add_argument("--algorithm", metavar="LABEL", help="which one, if the run has several")
    export.add_argument("--seed", type=int, metavar="N", help="default: the run's first")
    ask_for_code(export)
    ask_for_data(export)
    bundle = commands.add_parser("bundle", help="check an exported model, and say what is in it")
    bundle.set_defaults(command=_bundle)
    bundle.add_argument("file", type=Path, help="*.safetensors or *.onnx")
    bundle.add_argument("--key", type=Path, metavar="KEY", help="whose signature a bundle must have (Ed25519, PEM)")


def _export(options: argparse.Namespace) -> int:
    from idiolect.export.export_tables import print_shipped
    from idiolect.export.measuring import measure
    from idiolect.export.run_models import read_wanted, ship, ship_all, ship_shared

    also = [name for name in ("c", "int4", "int8") if getattr(options, name)]
    wanted = read_wanted(also, options.sign)
    run = open_saved(options)
    models = run.models(options.algorithm, options.seed)
    if options.all:
        shipped = ship_all(run, models, options.out, wanted)
    elif options.shared:
        shipped = [ship_shared(run, models, options.out, wanted)]
    else:
        shipped = [ship(run, models, options.client, options.out, wanted)]
    measured = measure(models, shipped)
    print_shipped(run, models, shipped, measured)
    if measured:
        _note(run, models.label, models.seed, measured)
    return 0


def _note(run: "Run", label: str, seed: int, measured: "list[Measured]") -> None:
    """Put the numbers into the run's report; a folder that cannot be written keeps its own."""
    from idiolect.report.writing import PAGE, write_report

    try:
        run.note_exports(label, seed, measured)
        write_report([run.path], run.path / PAGE)
    except UserMistake as mistake:
        print(f"The report is as before: {mistake}")


def _bundle(options: argparse.Namespace) -> int:
    from idiolect.device.bundle_text import describe
    from idiolect.device.bundles import BundleError, printable, read_bundle
    from idiolect.device.signatures import SignatureError
    from idiolect.export.onnx_file import read_texts

    if options.file.suffix == ".onnx":
        if options.key is not None:
            raise UserMistake("--key is for bundles; an ONNX file has a digest, but no signature")
        print(", ".join(f"{key} {printable(text)}" for key, text in read_texts(options.file).items()))
        return 0
    try:
        print(describe(read_bundle(options.file, None if options.key is None else options.key.read_bytes())))
    except SignatureError as reason:
        raise UserMistake(f"--key {options.key} {reason}") from None
    except OSError as reason:
        raise UserMistake(f"--key {options.key} cannot be read: {reason.strerror or reason}") from None
    except BundleError as reason:
        raise UserMistake(str(reason)) from None
    return 0
