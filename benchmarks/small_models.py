"""Are compressed models small where they run? Memory and time of every form of a model, for one image, on one core.

Each form runs in a process of its own, a few times. Its memory is the least peak of the process, less that of the same
process with a model of a few weights: what is left is what the model costs, with whatever the runtime makes of it. Some
dozens of kilobytes either way are noise, and the digits net is as small as that. Time is the processor's, and the best
of all. Models have random weights on a few levels, so only their logits can be compared: the last column is the largest
difference to the float graph of the same weights, relative to the largest logit.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from figures import TIMES, Figure, Found, Pace, Row, asked, once, write
from figures import Table as Rows
from idiolect.contracts import Compressed, uncompressed
from idiolect.export.bundle import bundle_bytes
from idiolect.export.eight_bits import int8_bytes
from idiolect.export.measuring import compiled
from idiolect.export.onnx_models import onnx_bytes
from idiolect.export.plans import Plan, plan
from idiolect.problems.models import mlp, resnet
from idiolect.quantization.layers import named_leaves, quantized_layers, replace_leaves

CLASSES, WIDTHS, REPEATS = 10, (1, 2, 3, 4), 3
FORMS = ("numpy", "c", "onnx", "onnx int4", "onnx int8", "c float", "onnx float")
MODELS: dict[str, tuple[dict[str, Any], Any, tuple[int, ...], int]] = {  # table, model, shape of an image, runs
    "digits": ({"name": "mlp"}, mlp((8, 8, 1), CLASSES), (8, 8, 1), 200),
    "ResNet-20": ({"name": "resnet"}, resnet((32, 32, 3), CLASSES), (32, 32, 3), 5),
    "MLP of 8 million": (
        {"name": "mlp"},
        mlp((28, 28, 1), CLASSES, hidden=(2048, 2048, 1200)),
        (28, 28, 1),
        20,
    ),
}
CHILD = """
import json, sys, time
from idiolect.export.model_process import LOADERS  # first: it asks for one thread
import numpy as np
form, file, images, times = sys.argv[1:]
model, shape = LOADERS[form](file)
pixels = np.fromfile(images, np.float32).reshape(-1, *shape)
logits = model(pixels)
start = time.process_time()
for _ in range(int(times)):
    model(pixels)
spent = 1000 * (time.process_time() - start) / int(times)
told = dict(line.split(":") for line in open("/proc/self/status"))
print(json.dumps([int(told["VmHWM"].split()[0]), spent, logits[0].tolist()]))
"""


class Cost(NamedTuple):
    """Bytes on disk, kilobytes of memory at the peak, milliseconds an image every time, and the logits."""

    disk: int
    memory: float
    spent: list[float]
    logits: np.ndarray

    @property
    def milliseconds(self) -> float:
        """The best of all."""
        return min(self.spent)


def made(model: Any, bits: int | None) -> Compressed:
    """A model with random weights; but for the first and the last layer, on few levels each."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))

    def draw(leaf: Any) -> np.ndarray:
        inputs = leaf.shape[0] if len(leaf.shape) == 2 else np.prod(leaf.shape[1:]) or 1
        scale = np.sqrt(2 / inputs) if len(leaf.shape) > 1 else 0.3
        found = rng.normal(0, scale, leaf.shape).astype(np.float32)
        return found if len(leaf.shape) > 1 else np.abs(found) + np.float32(0.5)

    params = jax.tree.map(draw, shapes)
    if bits is None:
        return uncompressed(params)
    leaves, levels = named_leaves(params), {}
    for name in quantized_layers(params, ["last", "vectors"]):
        edges = np.quantile(leaves[name].reshape(-1)[:100_000], (np.arange(2**bits) + 0.5) / 2**bits)
        levels[name] = edges.astype(np.float32)
        nearest = np.searchsorted((levels[name][1:] + levels[name][:-1]) / 2, leaves[name])
        leaves[name] = levels[name][nearest]
    return Compressed(replace_leaves(params, leaves), params, levels)


def content(form: str, compressed: Compressed, steps: Plan, images: np.ndarray) -> bytes:
    """The file of a model in this form."""
    if form == "onnx int8":
        return int8_bytes(compressed, steps, {}, images)
    if form in ("numpy", "c", "c float"):
        return bundle_bytes(uncompressed(compressed.params) if form == "c float" else compressed, {}, steps)
    return onnx_bytes(compressed, steps, {}, form={"onnx": "packed", "onnx int4": "int4"}.get(form, "float"))  # type: ignore[arg-type]


Ran = tuple[float, float, np.ndarray]  # peak kilobytes, milliseconds, logits
Runs = tuple[float, list[float], np.ndarray]  # the least peak, every time, logits


def run(form: str, file: Path, images: Path, times: int, program: Path | None, repeats: int) -> Runs | None:
    """The least peak and all times of a file in a few new processes; None for C without a compiler."""
    if form.startswith("c") and program is None:
        return None
    once = _in_c if form.startswith("c") else _in_python
    found = [once(form, file, images, times, program) for _ in range(repeats)]
    return min(peak for peak, _, _ in found), [spent for _, spent, _ in found], found[0][2]


def _in_c(form: str, file: Path, images: Path, times: int, program: Path | None) -> Ran:
    done = subprocess.run([str(program), file, str(times)], input=images.read_bytes(), capture_output=True, check=True)
    spent, peak = map(float, done.stderr.split())
    return peak, spent, np.frombuffer(done.stdout, np.float32)


def _in_python(form: str, file: Path, images: Path, times: int, program: Path | None) -> Ran:
    command = [sys.executable, "-c", CHILD, form.split()[0], str(file), str(images), str(times)]
    peak, spent, logits = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return peak, spent, np.array(logits)


def costs(
    name: str, bits: int | None, forms: tuple[str, ...], folder: Path, program: Path | None, repeats: int
) -> dict[str, Cost]:
    """What a model costs in each form, and in the same runtime with almost no weights, which is taken off."""
    table, model, shape, times = MODELS[name]
    compressed, images = made(model, bits), np.random.default_rng(1).uniform(size=(1, *shape)).astype(np.float32)
    none = made(mlp((1, 1, 1), 2, hidden=(2,)), bits)
    steps, empty = plan(table, compressed.params, shape, CLASSES), plan({"name": "mlp"}, none.params, (1, 1, 1), 2)
    (folder / "images").write_bytes(images.tobytes())
    (folder / "pixel").write_bytes(np.zeros(1, np.float32).tobytes())
    found = {}
    for form in forms:
        (folder / "model").write_bytes(content(form, compressed, steps, images))
        (folder / "empty").write_bytes(content(form, none, empty, np.zeros((1, 1, 1, 1), np.float32)))
        ran, idle = (
            run(form, folder / "model", folder / "images", times, program, repeats),
            run(form, folder / "empty", folder / "pixel", 1, program, repeats),
        )
        if ran is not None and idle is not None:
            found[form] = Cost((folder / "model").stat().st_size, ran[0] - idle[0], *ran[1:])
    return found


def main() -> None:
    """One table a model: every form at every width beside the float graph."""
    parser = asked(__doc__, REPEATS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--bits", type=int, nargs="+", choices=WIDTHS, default=list(WIDTHS))
    options, console, rows = parser.parse_args(), Console(width=120), list[Row]()
    pace = Pace(len(options.models) * len(options.bits), "models")
    with TemporaryDirectory() as name:
        folder = Path(name)
        program = compiled(folder)
        for model in options.models:
            table = Table(title=f"{model}: an image at a time, on one core")
            for column in ("bits", "form", "kB on disk", "kB in memory", "of float", "ms", "of float", "difference"):
                table.add_column(column, justify="left" if column == "form" else "right")
            for bits in options.bits:
                found = costs(model, bits, FORMS, folder, program, options.repeats)
                for form, cost in found.items():
                    rows.append(as_row(model, bits, form, cost, found["onnx float"]))
                    table.add_row(str(bits), form, *cells(rows[-1].figures), end_section=form == FORMS[-1])
                pace.step()
            console.print(table)
    write(options.json, Found({"forms": Rows("Every form of a model, an image at a time on one core", rows)}))


def as_row(model: str, bits: int, form: str, cost: Cost, whole: Cost) -> Row:
    """What a form costs, and beside the float graph of the same weights."""
    gap = np.abs(cost.logits - whole.logits).max() / np.abs(whole.logits).max()
    figures = {
        "disk": once(cost.disk / 1000, "kB"),
        "memory": once(cost.memory, "kB"),
        "memory of float": once(cost.memory / whole.memory, TIMES),
        "time": Figure("ms", cost.spent),
        "time of float": once(cost.milliseconds / whole.milliseconds, TIMES),
        "difference": once(gap),
    }
    return Row(f"{model}, {bits} bits, {form}", figures)


def cells(found: dict[str, Figure]) -> tuple[str, ...]:
    """The same as text; times are the best."""
    sizes = (f"{found['disk'].median:,.1f}", f"{found['memory'].median:,.0f}", f"{found['memory of float'].median:.3f}")
    spent = (f"{found['time'].least:.4f}", f"{found['time of float'].median:.2f}", f"{found['difference'].median:.1e}")
    return (*sizes, *spent)


if __name__ == "__main__":
    main()
