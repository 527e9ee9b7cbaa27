"""The ServerApp: serves a recipe as `idiolect serve` does, by the same reception and log, through Flower's grid.

Its settings are those of `[tool.flwr.app.config]` in the app's pyproject.toml, which `flwr run --run-config` changes.
"""

import math
from functools import partial

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from idiolect.deploy.assignment import assignment
from idiolect.deploy.flower.grid_carrier import GridCarrier
from idiolect.deploy.flower.post_office import PostOffice
from idiolect.deploy.flower.serving_settings import read_settings
from idiolect.deploy.serving.serving_folder import serve_with
from idiolect.errors import in_one_line
from idiolect.experiments.recipe_files import load_recipe
from idiolect.network.timelines import read_timeline

app = ServerApp()
_FAREWELL = 120.0  # seconds in which devices can hear that the run is over; letters take their time


def serve_through(grid: Grid, context: Context) -> None:
    """Serve until as many updates are there as the settings say, or Flower stops the run."""
    settings = read_settings(context.run_config)
    work = assignment(load_recipe(settings.recipe, notice=_say), settings.algorithm, settings.data_dir)
    carrier = GridCarrier(grid, settings.patience)
    opened = partial(PostOffice, work, carrier=carrier, patience=settings.patience, notice=_say)
    timeline = serve_with(
        work,
        settings.out,
        opened,
        rules=settings.rules,
        updates=settings.updates,
        farewell=_FAREWELL,
        notice=_say,
    )
    if timeline is not None:
        end = math.ceil(read_timeline(timeline).arrived.max())
        _say(f"replay with: idiolect run {settings.recipe} --timeline {timeline} --set horizon={end}")


def _say(sentence: str) -> None:
    print(f"idiolect: {in_one_line(sentence)}", flush=True)


app.main()(serve_through)
