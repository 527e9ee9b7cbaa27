"""The table of exported models, for the terminal."""

from collections.abc import Sequence

import jax
from rich.console import Console
from rich.table import Table

from idiolect.contracts import uncompressed
from idiolect.export.run_models import Shipped
from idiolect.quantization.sizes import bundle_size
from idiolect.results.client_models import CellModels
from idiolect.results.export_files import Measured
from idiolect.results.run import Run


def print_shipped(
    run: Run,
    models: CellModels,
    shipped: Sequence[Shipped],
    measured: Sequence[Measured] = (),
    console: Console | None = None,
) -> None:
    """What was written for each client: bits a weight, bytes of the model, its score at the end of the run."""
    console = console or Console()
    console.width = max(console.width, 100)
    # Of a whole model, whatever part of it was shared.
    shapes = jax.eval_shape(models.problem.init, jax.random.key(0))
    full = bundle_size(uncompressed(shapes)).total
    split, metric = run.experiment.evaluation.split, models.problem.metric.name
    table = Table(title=f"{models.label}, seed {models.seed}: each client's own model, and its {split} {metric}")
    for name in ("client", "bits", "bytes", "of full size", metric, "files"):
        table.add_column(name, justify="left" if name == "files" else "right", no_wrap=name != "files")
    for one in shipped:
        score = "not scored" if one.score is None else f"{one.score:.3f}"
        files = ", ".join(file.name for file in one.files)
        whose = "shared" if one.client is None else str(one.client)
        table.add_row(whose, f"{one.bits:.4g}", f"{one.bytes:,}", f"{one.bytes / full:.1%}", score, files)
    console.print(table)
    if measured:
        console.print(_measured(measured))
    console.print(f"Written to {shipped[0].files[0].parent}")


def _measured(measured: Sequence[Measured]) -> Table:
    table = Table(title="The files themselves, run on this machine, an image at a time, on test rows")
    for name in ("client", "runs in", "bytes on disk", "bytes in memory", "ms a sample", "accuracy"):
        table.add_column(name, justify="left" if name == "runs in" else "right", no_wrap=True)
    for one in measured:
        accuracy = "no rows" if one.accuracy is None else f"{one.accuracy:.3f}"
        row = (
            one.form,
            f"{one.disk:,}",
            "-" if one.resident is None else f"{one.resident:,}",
            f"{one.milliseconds:.3f}",
            accuracy,
        )
        table.add_row(str(one.client), *row)
    return table
