"""Where the clients of a run work: here, or on Ray; and by which clock. No recipe says so: it changes no science."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.experiments.running import Engine
from idiolect.experiments.schema import Recipe, write_recipe


class Place(NamedTuple):
    """The engine, the cluster's address if there is one, the clock, and how many actors there shall be."""

    engine: Literal["simulator", "ray"] = "simulator"
    address: str | None = None
    clock: Literal["virtual", "real"] = "virtual"
    actors: int | None = None

    def chosen(self) -> dict[str, str]:
        """What is not the default, by name."""
        pairs = zip(self._fields, self, Place(), strict=True)
        return {name: str(value) for name, value, default in pairs if value != default}


@contextmanager
def opened(place: Place, recipe: Recipe, data_dir: Path | None = None) -> Iterator[Engine]:
    """The engine, ready to run the algorithms of a recipe."""
    _check(place, recipe)
    if place.engine == "simulator":
        yield Engine()
        return
    from idiolect.engines.ray import ActorPool, RayBackend, connected

    with (
        connected(place.address) as ray,
        ActorPool(ray, write_recipe(recipe), data_dir=data_dir, count=place.actors) as pool,
    ):
        yield Engine(partial(RayBackend, pool), place.clock)


def _check(place: Place, recipe: Recipe) -> None:
    """Refuse what cannot run there."""
    if place.engine != "ray":
        for name, value in place.chosen().items():
            raise UserMistake(f"--{name} is {value}, which needs --engine ray")
        return
    if place.clock == "real" and recipe.timeline is not None:
        raise UserMistake(f"--clock is real, but timeline is {recipe.timeline}, which only a virtual clock can replay")
    for label, table in zip(recipe.labels, recipe.algorithms, strict=True):
        if catalog.serverless(table.name):
            raise UserMistake(f"--engine is ray, but {label} has no server to send work to actors; leave --engine out")
        if place.clock == "real" and catalog.in_rounds(table.name):
            raise UserMistake(
                f"--clock is real, but {label} works in rounds; take an asynchronous or buffered protocol, such as "
                "persa_fl_me or fedbuff"
            )
