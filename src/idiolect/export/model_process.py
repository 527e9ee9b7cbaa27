"""A process that runs exported models, one after the other, and tells what each takes. See `measuring`.

`python -m idiolect.export.model_process numpy|onnx` reads lines `[file, images]` in JSON, and answers each with
`[bytes of memory, milliseconds, classes]`. Only what a device would have is imported.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads cannot be forked safely

import numpy as np

from idiolect.device import predict, read_bundle

Model = Callable[[np.ndarray], np.ndarray]


def held() -> int | None:
    """The bytes of memory that this process has for itself; None where the system does not tell."""
    rollup = Path("/proc/self/smaps_rollup")
    if not rollup.exists():
        return None
    lines = rollup.read_text("utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def load_numpy(file: str) -> tuple[Model, tuple[int, ...]]:
    """A bundle, computed by the reader."""
    bundle = read_bundle(file)
    return lambda images: predict(bundle, images), bundle.program.image


def load_onnx(file: str) -> tuple[Model, tuple[int, ...]]:
    """A graph, computed by onnxruntime on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda images: session.run(None, {"images": images})[0], tuple(session.get_inputs()[0].shape[1:])


LOADERS = {"numpy": load_numpy, "onnx": load_onnx}


def tell(form: str, file: str, images: str) -> list[Any]:
    """Memory, time and classes of one model, in this process."""
    before = held()
    model, shape = LOADERS[form](file)
    pixels = np.fromfile(images, np.float32).reshape(-1, *shape)
    model(pixels[:1])
    start = time.process_time()
    logits = np.concatenate([model(pixels[k : k + 1]) for k in range(len(pixels))])
    spent = 1000 * (time.process_time() - start) / len(pixels)
    after = held()
    kept = None if before is None or after is None else after - before - pixels.nbytes
    return [kept, spent, logits.argmax(1).tolist()]


def main() -> None:
    """Answer every line, each in a process of its own where processes can be forked."""
    form = sys.argv[1]
    if form == "onnx":
        import onnxruntime  # noqa: F401, so that no model pays for it
    for line in sys.stdin:
        sys.stdout.flush()
        if not hasattr(os, "fork"):
            print(json.dumps(tell(form, *json.loads(line))), flush=True)
            continue
        child = os.fork()
        if not child:
            print(json.dumps(tell(form, *json.loads(line))), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


if __name__ == "__main__":
    main()
