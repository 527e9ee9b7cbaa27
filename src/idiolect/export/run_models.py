"""Models leave a run: one file per client for a device, as a bundle, as an ONNX graph, as C."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from idiolect.contracts import Compressed, Origin, Params, Problem, Shard, Split
from idiolect.engines.workers import compile_for_clients
from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import mean_scores
from idiolect.export.bundle import bundle_bytes
from idiolect.export.c_source import write_c
from idiolect.export.eight_bits import int8_bytes
from idiolect.export.onnx_models import onnx_bytes
from idiolect.export.plans import Plan, plan
from idiolect.export.shared_model import shared_model
from idiolect.files import write_atomically
from idiolect.options import as_choice
from idiolect.problems.data.input_scaling import as_floats
from idiolect.quantization.sizes import bundle_size
from idiolect.registry import Choice
from idiolect.results.client_models import CellModels
from idiolect.results.run import Run, open_run

BUNDLE, ONNX, C, INT4, INT8 = ".safetensors", ".onnx", ".c", ".int4.onnx", ".int8.onnx"
_CALIBRATION = 64  # images, at most, on which the range of activations is seen


class Shipped(NamedTuple):
    """One client's files, and what to expect of them: bits a weight, bytes of the model, its score when it was run."""

    client: int | None  # None for the model that clients share
    bits: float
    bytes: int
    score: float | None  # None for a client that was not scored
    files: list[Path]


class Wanted(NamedTuple):
    """What is written for each client: which kinds of files, and signed by which private key."""

    kinds: tuple[str, ...] = (BUNDLE, ONNX)
    key: bytes | None = None


def export_models(
    run: Run | str | Path,
    out: str | Path,
    *,
    client: int | Literal["shared"] | None = None,
    algorithm: str | None = None,
    seed: int | None = None,
    also: Sequence[Literal["c", "int4", "int8"]] = (),
    key: str | Path | None = None,
) -> list[Shipped]:
    """Write clients' own models from a run, for devices.

    A model of another library (PyTorch) is written for that one: as its state dict, and as its own ONNX graph.

    Args:
        run: A run, or the path of its folder.
        out: Of one client, a file: with a suffix (`.safetensors`, `.onnx`, `.c`) of that kind, without one a bundle and
            a graph. Of all clients, a folder.
        client: Whose model; without it, everybody's; `"shared"` is the one that all share, before anybody adapts it.
        algorithm: Which one, if the run has several.
        seed: By default the run's first.
        also: Further files: `c`, an array in C with the reader beside it; `int4` and `int8`, graphs of integers.
        key: The operator's private key, a file in PEM, by which bundles are signed.

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
    models, wanted = found.models(algorithm, seed), read_wanted(also, key)
    if client is None:
        return ship_all(found, models, Path(out), wanted)
    if client == "shared":
        return [ship_shared(found, models, Path(out), wanted)]
    return [ship(found, models, client, Path(out), wanted)]


def read_wanted(also: Sequence[str], key: str | Path | None) -> Wanted:
    """What to write, with the operator's key read from its file."""
    try:
        private = None if key is None else Path(key).read_bytes()
    except OSError as reason:
        raise UserMistake(f"the operator's key {key} cannot be read: {reason.strerror or reason}") from None
    further = {"c": C, "int4": INT4, "int8": INT8}
    return Wanted((BUNDLE, ONNX, *(further[name] for name in also)), private)


def ship(run: Run, models: CellModels, client: int, out: Path, wanted: Wanted = Wanted()) -> Shipped:
    """Write a client's model to `out`: with a suffix, as that kind of file; without one, as all that are wanted."""
    wanted = _checked(out, wanted)
    return _write(run, models, client, models.compressed(client), out, wanted, _scoring(models))


def ship_shared(run: Run, models: CellModels, out: Path, wanted: Wanted = Wanted()) -> Shipped:
    """Write the model that clients share, in the same way."""
    wanted = _checked(out, wanted)
    if INT8 in wanted.kinds:
        raise UserMistake(
            "--int8 looks at images of the client whose model it is, and --shared has none; take --client"
        )
    model = shared_model(models, shares=run.cell(models.label, models.seed).shares)
    return _write(run, models, None, model, out, wanted, _scoring(models))


def _checked(out: Path, wanted: Wanted) -> Wanted:
    """What is written to a file of this name."""
    if out.suffix not in ("", BUNDLE, ONNX, C):
        raise UserMistake(
            f"--out {out} ends in '{out.suffix}', but can end in {BUNDLE}, {ONNX}, {C} or in none of them"
        )
    if not out.parent.is_dir():
        raise UserMistake(f"--out {out} lies in a folder that does not exist")
    if out.suffix:
        return wanted._replace(kinds=tuple(dict.fromkeys([out.suffix, *wanted.kinds[2:]])))
    return wanted


def ship_all(run: Run, models: CellModels, out: Path, wanted: Wanted = Wanted()) -> list[Shipped]:
    """Write every client's model into the folder `out`."""
    ready = [models.compressed(client) for client in range(models.problem.clients.total)]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise UserMistake(f"--out {out} cannot be written: {reason.strerror or reason}") from None
    score = _scoring(models)
    return [
        _write(run, models, client, model, out / f"client{client}", wanted, score) for client, model in enumerate(ready)
    ]


Scoring = Callable[[Params, Shard], Any]


def _scoring(models: CellModels) -> Scoring:
    """A model's score on the rows of a client, compiled once for all."""
    return compile_for_clients(lambda params, shard: mean_scores((models.problem.metric,), params, shard)[0])


def _write(
    run: Run, models: CellModels, client: int | None, model: Compressed, out: Path, wanted: Wanted, score: Scoring
) -> Shipped:
    stem, files = out.with_name(out.name.removesuffix(out.suffix)), []
    about, origin = _about(run, models, client, model, score), models.problem.origin
    steps = None if origin is not None else _plan(run, models, model)
    for kind in wanted.kinds:
        file = stem.with_name(stem.name + kind)
        if origin is not None:
            _write_for(origin, file, model, about)
        elif kind != BUNDLE and steps is None:
            raise UserMistake(
                f"{models.problem.name} is no image problem, and only those have graphs; ask for {BUNDLE}"
            )
        elif kind == BUNDLE:
            write_atomically(file, bundle_bytes(model, about, steps, wanted.key))
        elif kind == C:
            write_c(file, bundle_bytes(model, about, steps, wanted.key))
        elif steps is not None:
            write_atomically(file, _graph(kind, models, client, model, steps, about))
        files.append(file)
    size = bundle_size(model)
    return Shipped(client, size.bits, size.total, _recorded(run, models, client), files)


def _recorded(run: Run, models: CellModels, client: int | None) -> float | None:
    """What a model scored at the end of the run: a client's own, or the shared one as all received it."""
    cell = run.cell(models.label, models.seed)
    if client is None:
        received = str(run.experiment.evaluation.steps[0])
        return cell.end.scores["participating"][received].mean if received == "0" else None
    mine = {one.client: one for one in cell.clients}.get(client)
    return None if mine is None else mine.scores["own"]


def _write_for(origin: Origin, file: Path, model: Compressed, about: dict[str, Any]) -> None:
    """A file for the library that the model comes from."""
    if file.suffix == C:
        raise UserMistake(f"--c writes models of this library, but this one is of {origin.library}; ask for {BUNDLE}")
    origin.write(model.params, file, {name: str(value) for name, value in about.items()})


def _graph(
    kind: str, models: CellModels, client: int | None, model: Compressed, steps: Plan, about: dict[str, Any]
) -> bytes:
    if kind != INT8 or client is None:
        return onnx_bytes(model, steps, about, form="int4" if kind == INT4 else "packed")
    own = models.problem.clients.adapt
    first = int(own.starts[client])
    return int8_bytes(model, steps, about, raw_images(models.problem, own, first, min(own.sizes[client], _CALIBRATION)))


def raw_images(problem: Problem, part: Split, first: int, count: int) -> np.ndarray:
    """Some images of a part as exported models take them: between 0 and 1, and not scaled yet."""
    pixels = as_floats(part.rows["image"][first : first + count])
    if "image" not in problem.scaling:
        return pixels
    mean, deviation = (np.asarray(numbers, np.float32) for numbers in problem.scaling["image"])
    return pixels * deviation + mean


def _about(run: Run, models: CellModels, client: int | None, model: Compressed, score: Scoring) -> dict[str, Any]:
    """Where a model comes from, and how good it is on rows by which nothing was chosen but settings."""
    about: dict[str, Any] = {"recipe": run.experiment.name, "algorithm": models.label, "seed": models.seed}
    about |= {"client": "shared" if client is None else client, "metric": models.problem.metric.name}
    rows, everybody = models.problem.clients.validation, models.problem.clients.participating
    judges = [one for one in (everybody if client is None else [client]) if rows.sizes[one]]
    if judges:
        about["validation_score"] = round(float(np.mean([score(model.params, rows.shard(one)) for one in judges])), 6)
    for name, scaling in models.problem.scaling.items():  # images are scaled by what is written, others before it
        where = "inside the model" if name == "image" else "before the model"
        about[f"{name}_scaling"] = {
            **{key: list(numbers) for key, numbers in scaling._asdict().items()},
            "where": where,
        }
    return about


def _plan(run: Run, models: CellModels, model: Compressed) -> Plan | None:
    """What the model computes, if that is known: a named model on images."""
    problem, rows = run.experiment.problem, models.problem.clients.train.rows
    if not isinstance(problem, Choice) or "model" not in problem.options or "image" not in rows:
        return None
    network = as_choice(problem.options["model"], "problem.model")
    *_, last = (leaf for leaf in jax.tree.leaves(model.params) if leaf.ndim > 1)  # not every class needs to occur
    classes = last.shape[-1]
    table, shape = {"name": network.name, **network.options}, tuple(rows["image"].shape[1:])
    return plan(table, model.params, shape, classes, models.problem.scaling.get("image"))
