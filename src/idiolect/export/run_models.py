"""Models leave a run: one file per client for a device, as a bundle and as an ONNX graph."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.experiments.schema import image_problem
from idiolect.export.bundle import write_bundle
from idiolect.export.onnx_models import write_onnx
from idiolect.quantization.sizes import bundle_size
from idiolect.results.models import CellModels

BUNDLE, ONNX = ".safetensors", ".onnx"


class Shipped(NamedTuple):
    """One client's files, and what to expect of them: bits a weight, bytes of the model, its score when it was run."""

    client: int
    bits: float
    bytes: int
    score: float | None  # None for a client that was not scored
    files: list[Path]


def ship(finished: CellModels, client: int, out: Path) -> Shipped:
    """Write a client's model to `out`: with a suffix, as that kind of file; without one, as both kinds."""
    if out.suffix not in ("", BUNDLE, ONNX):
        raise UserMistake(f"--out {out} ends in '{out.suffix}', but can end in {BUNDLE}, {ONNX} or neither, for both")
    if not out.parent.is_dir():
        raise UserMistake(f"--out {out} lies in a folder that does not exist")
    return _write(finished, client, finished.compressed(client), out)


def ship_all(finished: CellModels, out: Path) -> list[Shipped]:
    """Write every client's model into the folder `out`."""
    models = [finished.compressed(client) for client in range(finished.problem.clients.total)]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise UserMistake(f"--out {out} cannot be written: {reason.strerror or reason}") from None
    return [_write(finished, client, model, out / f"client{client}") for client, model in enumerate(models)]


def _write(finished: CellModels, client: int, model: Compressed, out: Path) -> Shipped:
    kinds = [out.suffix] if out.suffix else [BUNDLE, ONNX]
    files = [out.with_name(out.name.removesuffix(out.suffix) + kind) for kind in kinds]
    about = {"recipe": finished.recipe.name, "algorithm": finished.label, "seed": str(finished.seed)}
    about["client"] = str(client)
    for file in files:
        if file.suffix == BUNDLE:
            write_bundle(file, model, about)
        else:
            _write_graph(file, finished, model, about)
    size, recorded = bundle_size(model), finished.clients.get(client)
    return Shipped(client, size.bits, size.total, recorded["scores"]["own"] if recorded else None, files)


def _write_graph(file: Path, finished: CellModels, model: Compressed, about: dict[str, str]) -> None:
    images = image_problem(finished.recipe)
    if images is None:
        raise UserMistake(
            f"{finished.recipe.problem.name} is no image problem, and only those have graphs; ask for {BUNDLE}"
        )
    rows = finished.problem.clients.train.rows
    classes = int(np.asarray(rows["label"]).max()) + 1
    write_onnx(file, model, images.model, tuple(rows["image"].shape[1:]), classes, about)
