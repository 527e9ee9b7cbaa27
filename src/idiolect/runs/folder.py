"""A run's folder on disk: written file by file, each of them atomically, and resumable cell by cell.

A *cell* is one algorithm on one seed. Its results lie in `cells/` as soon as it is finished; everything else
(`metrics.jsonl`, `clients.csv`, `summary.json`, the pictures) is made from those, so a run that was interrupted goes on
with the cells it still lacks.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save

from idiolect.contracts import PyTree
from idiolect.errors import UserMistake
from idiolect.export.contents import Size
from idiolect.files import write_atomically
from idiolect.network.round_files import load_rounds, write_rounds
from idiolect.network.rounds import Rounds
from idiolect.network.timeline import Timeline, read_timeline, write_timeline
from idiolect.recipes import Recipe, load_recipe, write_recipe
from idiolect.recording import Outcome


class RunFolder:
    """Where a run keeps its files."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path = path
        text = write_recipe(recipe)
        saved = path / "recipe.toml"
        try:
            if saved.is_file():
                if load_recipe(str(saved)) != recipe:
                    raise UserMistake(
                        f"--out {path} holds a run of another recipe or with other settings; name a new folder"
                    )
            elif path.exists() and any(path.iterdir()):
                raise UserMistake(f"--out {path} is not empty and holds no run; name a new folder")
            for part in ("cells", "timelines", "params"):
                (path / part).mkdir(parents=True, exist_ok=True)
            if not saved.is_file():
                write_atomically(saved, text.encode())
        except OSError as reason:
            raise UserMistake(f"--out {path} cannot be written: {reason.strerror or reason}") from None

    def has(self, label: str, seed: int) -> bool:
        """Is this cell finished?"""
        return self._cell(label, seed).is_file()

    def add(self, outcome: Outcome) -> None:
        """Keep a finished cell: its timeline, its parameters and, last, its results."""
        name = f"{outcome.label}-seed{outcome.seed}"
        write_atomically(*self._timeline(name, outcome.table))
        write_atomically(self.path / "params" / f"{name}.safetensors", _tensors(outcome))
        write_atomically(self._cell(outcome.label, outcome.seed), json.dumps(cell_record(outcome)).encode())

    def timeline(self, label: str, seed: int) -> Timeline | Rounds:
        """The timeline of a finished cell."""
        place = self.path / "timelines" / f"{label}-seed{seed}"
        table = place.with_name(place.name + ".csv")
        return read_timeline(table) if table.is_file() else load_rounds(place.with_name(place.name + ".npz"))

    def _timeline(self, name: str, table: Timeline | Rounds) -> tuple[Path, bytes]:
        if isinstance(table, Rounds):
            return self.path / "timelines" / f"{name}.npz", write_rounds(table)
        return self.path / "timelines" / f"{name}.csv", write_timeline(table).encode()

    def cells(self, recipe: Recipe) -> list[dict[str, Any]]:
        """The finished cells, in the recipe's order."""
        pairs = [(label, seed) for label in recipe.labels for seed in recipe.seeds if self.has(label, seed)]
        return [json.loads(self._cell(label, seed).read_text("utf-8")) for label, seed in pairs]

    def write_tables(self, cells: list[dict[str, Any]], summary: dict[str, Any]) -> None:
        """The files people read: a line per evaluation, a row per client, and the summary."""
        lines = [json.dumps({**head(cell), **point}) + "\n" for cell in cells for point in cell["points"]]
        write_atomically(self.path / "metrics.jsonl", "".join(lines).encode())
        text = io.StringIO()
        rows = [{**head(cell), **_flat(client)} for cell in cells for client in cell["clients"]]
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path / "clients.csv", text.getvalue().encode())
        write_atomically(self.path / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())

    def _cell(self, label: str, seed: int) -> Path:
        return self.path / "cells" / f"{label}-seed{seed}.json"


def next_free(parent: Path, name: str) -> Path:
    """`parent/name`, or with the first number that is not taken."""
    path, number = parent / name, 2
    while path.exists():
        path, number = parent / f"{name}-{number}", number + 1
    return path


def cell_record(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain JSON values, without the arrays."""
    return {
        "label": outcome.label,
        "seed": outcome.seed,
        "metric": outcome.metric.name,
        "higher_is_better": outcome.metric.higher_is_better,
        "seconds": outcome.seconds,
        "ended": outcome.ended,
        **({"refusals": {str(c): why for c, why in outcome.refusals.items()}} if outcome.refusals else {}),
        "points": [
            {
                "time": point.time,
                "updates": point.updates,
                **{group: {k: s._asdict() for k, s in scores.items()} for group, scores in point.scores.items()},
                "reports": point.reports,
                **({"layers": {name: view._asdict() for name, view in point.layers.items()}} if point.layers else {}),
            }
            for point in outcome.points
        ],
        "clients": [{**client._asdict(), **_size(outcome.sizes[client.client])} for client in outcome.clients],
    }


def _size(size: Size) -> dict[str, float]:
    return {"bits": size.bits, "bytes": size.total}


def head(cell: dict[str, Any]) -> dict[str, Any]:
    """Which cell a line belongs to."""
    return {"algorithm": cell["label"], "seed": cell["seed"]}


def _flat(client: dict[str, Any]) -> dict[str, Any]:
    scores = {(f"after_{k}_steps" if k != "own" else "own"): value for k, value in client["scores"].items()}
    return {**{key: client[key] for key in ("client", "group", "samples", "bits", "bytes")}, **scores}


def _tensors(outcome: Outcome) -> bytes:
    tensors = names_of("server", outcome.params)
    for client, state in sorted(outcome.personal.items()):
        tensors |= names_of(f"client{client}", state)
    # A number has no axis, and ascontiguousarray would give it one.
    return save({name: np.asarray(leaf, order="C") for name, leaf in tensors.items()})


def names_of(prefix: str, tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree under the names they have in a file of parameters."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in leaves}
