"""Models leave a run: one file per client for a device, as a bundle and as an ONNX graph."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.bundle import write_bundle
from idiolect.export.onnx_models import write_onnx
from idiolect.options import as_choice
from idiolect.quantization.sizes import bundle_size
from idiolect.registry import Choice
from idiolect.results.client_models import CellModels
from idiolect.results.run import Run, open_run

BUNDLE, ONNX = ".safetensors", ".onnx"


class Shipped(NamedTuple):
    """One client's files, and what to expect of them: bits a weight, bytes of the model, its score when it was run."""

    client: int
    bits: float
    bytes: int
    score: float | None  # None for a client that was not scored
    files: list[Path]


def export_models(
    run: Run | str | Path,
    out: str | Path,
    *,
    client: int | None = None,
    algorithm: str | None = None,
    seed: int | None = None,
) -> list[Shipped]:
    """Write clients' own models from a run, for devices.

    Args:
        run: A run, or the path of its folder.
        out: Of one client, a file: with a suffix (`.safetensors`, `.onnx`) of that kind, without one of both kinds. Of
            all clients, a folder.
        client: Whose model; without it, everybody's.
        algorithm: Which one, if the run has several.
        seed: By default the run's first.

    Returns:
        What was written for each client.

    Example:
        >>> import idiolect
        >>> mine = idiolect.Experiment(idiolect.Choice("quadratics", {"clients": 4}), ["fedavg"], horizon=40.0)
        >>> run = idiolect.run(mine, out=tmp / "exported")
        >>> idiolect.export_models(run, tmp / "phone.safetensors", client=0)[0].bytes
        40
    """
    found = run if isinstance(run, Run) else open_run(run)
    models = found.models(algorithm, seed)
    return ship_all(found, models, Path(out)) if client is None else [ship(found, models, client, Path(out))]


def ship(run: Run, models: CellModels, client: int, out: Path) -> Shipped:
    """Write a client's model to `out`: with a suffix, as that kind of file; without one, as both kinds."""
    if out.suffix not in ("", BUNDLE, ONNX):
        raise UserMistake(f"--out {out} ends in '{out.suffix}', but can end in {BUNDLE}, {ONNX} or neither, for both")
    if not out.parent.is_dir():
        raise UserMistake(f"--out {out} lies in a folder that does not exist")
    return _write(run, models, client, models.compressed(client), out)


def ship_all(run: Run, models: CellModels, out: Path) -> list[Shipped]:
    """Write every client's model into the folder `out`."""
    ready = [models.compressed(client) for client in range(models.problem.clients.total)]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise UserMistake(f"--out {out} cannot be written: {reason.strerror or reason}") from None
    return [_write(run, models, client, model, out / f"client{client}") for client, model in enumerate(ready)]


def _write(run: Run, models: CellModels, client: int, model: Compressed, out: Path) -> Shipped:
    kinds = [out.suffix] if out.suffix else [BUNDLE, ONNX]
    files = [out.with_name(out.name.removesuffix(out.suffix) + kind) for kind in kinds]
    about = {"recipe": run.experiment.name, "algorithm": models.label, "seed": str(models.seed)}
    about["client"] = str(client)
    for file in files:
        if file.suffix == BUNDLE:
            write_bundle(file, model, about)
        else:
            _write_graph(file, run, models, model, about)
    recorded = {one.client: one for one in run.cell(models.label, models.seed).clients}.get(client)
    size = bundle_size(model)
    return Shipped(client, size.bits, size.total, recorded.scores["own"] if recorded else None, files)


def _write_graph(file: Path, run: Run, models: CellModels, model: Compressed, about: dict[str, str]) -> None:
    problem, rows = run.experiment.problem, models.problem.clients.train.rows
    if not isinstance(problem, Choice) or "model" not in problem.options:
        raise UserMistake(f"{models.problem.name} is no image problem, and only those have graphs; ask for {BUNDLE}")
    network = as_choice(problem.options["model"], "problem.model")
    classes = int(np.asarray(rows["label"]).max()) + 1
    table = {"name": network.name, **network.options}
    write_onnx(file, model, table, tuple(rows["image"].shape[1:]), classes, about)
