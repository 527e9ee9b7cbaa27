"""What exported models take and give on this machine: bytes on disk and in memory, milliseconds, accuracy.

Every model is run in a process of its own, forked from one that has loaded the runtime and no model: what the process
holds more at the end is what the model takes. Time is the processor's, for one image at a time. C is compiled here, if
there is a compiler.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from idiolect.errors import UserMistake
from idiolect.export.c_source import READER, reader_source
from idiolect.export.run_models import BUNDLE, INT4, INT8, ONNX, C, Shipped, Wanted, raw_images, ship
from idiolect.files import write_atomically
from idiolect.results.client_models import CellModels
from idiolect.results.export_files import Measured
from idiolect.results.run import Run

_FORMS = {BUNDLE: "numpy", INT4: "onnx int4", INT8: "onnx int8", ONNX: "onnx", C: "c"}  # by how a file ends
_IMAGES = 100  # at most, by which a model is measured
_OPTIMIZED = ["-std=c99", "-O3", "-march=native"]


def measure(models: CellModels, shipped: Sequence[Shipped]) -> list[Measured]:
    """Run every file that this machine can run; nothing, where models do not classify images."""
    rows = models.problem.clients.test.rows
    if not (isinstance(rows, dict) and rows.keys() == {"image", "label"}):
        return []
    found: list[Measured] = []
    with TemporaryDirectory() as folder:
        for form in _FORMS.values():
            jobs = list(_jobs(models, shipped, form, Path(folder)))
            found += _run(jobs, form, Path(folder)) if jobs else []
    return sorted(found, key=lambda one: one.client)


def measure_one(run: Run, label: str, form: str) -> tuple[int | None, float]:
    """Memory and milliseconds of the first client's model of an algorithm, written and run in this form."""
    end = next(suffix for suffix, name in _FORMS.items() if name == form)
    models = run.models(label)
    with TemporaryDirectory() as folder:
        found = measure(models, [ship(run, models, 0, Path(folder) / "model", Wanted((end,)))])
    if not found:
        needs = "a C compiler" if form == "c" else "onnxruntime" if form.startswith("onnx") else "images"
        raise UserMistake(f"--runs-in is {form}, but models of {run.experiment.name} cannot run there without {needs}")
    return found[0].resident, found[0].milliseconds


def form_of(file: Path) -> str:
    """What a file is run in."""
    return next(form for end, form in _FORMS.items() if file.name.endswith(end))


class _Job(NamedTuple):
    client: int
    file: Path
    disk: int
    images: Path
    labels: np.ndarray


def _jobs(models: CellModels, shipped: Sequence[Shipped], form: str, folder: Path) -> Iterator[_Job]:
    test = models.problem.clients.test
    for one in shipped:
        for file in one.files:
            if form_of(file) != form or one.client is None:  # whose rows would it be measured on?
                continue
            first, count = int(test.starts[one.client]), min(int(test.sizes[one.client]), _IMAGES)
            own, pixels = slice(first, first + count), raw_images(models.problem, test, first, count)
            pixels = pixels if len(pixels) else np.zeros((1, *pixels.shape[1:]), np.float32)
            images = folder / f"images{one.client}"
            images.write_bytes(pixels.tobytes())
            yield _Job(one.client, file, file.stat().st_size, images, np.asarray(test.rows["label"][own]))


def _run(jobs: Sequence[_Job], form: str, folder: Path) -> list[Measured]:
    """What a process of this form tells of each job; nothing if it cannot be started here."""
    if form == "c":
        program = compiled(folder)
        return [] if program is None else [_run_c(job, program, folder) for job in jobs]
    told = "".join(json.dumps([str(job.file), str(job.images)]) + "\n" for job in jobs)
    command = [sys.executable, "-m", "idiolect.export.model_process", form.split()[0]]
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=False)
    if done.returncode:
        return []
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        Measured(job.client, form, job.disk, kept, spent, _accuracy(job, np.array(classes)))
        for job, (kept, spent, classes) in zip(jobs, answers, strict=True)
    ]


def compiled(folder: Path) -> Path | None:
    """The reader in C with its command line, or None without a compiler."""
    compiler = next((found for found in map(shutil.which, ("cc", "gcc", "clang")) if found), None)
    if compiler is None:
        return None
    for part in (*READER, "run.c"):
        write_atomically(folder / part, reader_source(part))
    program = folder / "run"
    sources = [str(folder / part) for part in ("idiolect.c", "run.c")]
    done = subprocess.run(
        [compiler, *_OPTIMIZED, *sources, "-lm", "-o", str(program)], check=False, capture_output=True
    )
    return None if done.returncode else program


def _run_c(job: _Job, program: Path, folder: Path) -> Measured:
    """The bundle is what lies in the array, and is loaded here instead of linked."""
    bundle = folder / "bundle"
    text = job.file.read_text()
    array = text[text.index("{") + 1 : text.index("}")]
    bundle.write_bytes(bytes(int(number) for number in array.split(",") if number.strip()))
    nothing = subprocess.run([str(program)], check=False, capture_output=True, text=True)
    done = subprocess.run(
        [str(program), str(bundle), "3"], input=job.images.read_bytes(), capture_output=True, check=True
    )
    spent, kept = map(float, done.stderr.split())
    empty = float(nothing.stderr.splitlines()[-1]) if nothing.stderr.strip() else 0.0
    logits = np.frombuffer(done.stdout, np.float32)
    classes = logits.reshape(max(len(job.labels), 1), -1).argmax(1)
    return Measured(
        job.client, "c", len(bundle.read_bytes()), int(1024 * (kept - empty)), spent, _accuracy(job, classes)
    )


def _accuracy(job: _Job, classes: np.ndarray) -> float | None:
    return float(np.mean(classes == job.labels)) if len(job.labels) else None
