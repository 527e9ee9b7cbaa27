"""The engine and the clock of a run: in this process or on Ray. No recipe says so: it changes no science."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Literal, NamedTuple

from idiolect import catalog
from idiolect.contracts import Algorithm, Peer
from idiolect.errors import UserMistake
from idiolect.experiments.building import is_serverless
from idiolect.experiments.running import Execution
from idiolect.experiments.sources import Source, cell_maker
from idiolect.experiments.value import Experiment, Line


class Place(NamedTuple):
    """Where the clients of a run work.

    Args:
        engine: In this process, or on Ray.
        address: Of a Ray cluster; without it, Ray runs on this machine.
        clock: Whether updates count at the times of a virtual network, or as they really arrive.
        actors: How many hold the clients' data; by default, as many as there are CPUs.
        patience: Seconds after which an actor that does not answer is taken for dead.

    Example:
        >>> from idiolect import Place
        >>> Place("ray", actors=2).chosen()
        {'engine': 'ray', 'actors': '2'}
    """

    engine: Literal["simulator", "ray"] = "simulator"
    address: str | None = None
    clock: Literal["virtual", "real"] = "virtual"
    actors: int | None = None
    patience: float = 600.0

    def chosen(self) -> dict[str, str]:
        """What is not the default, by name."""
        pairs = zip(self._fields, self, Place(), strict=True)
        return {name: str(value) for name, value, default in pairs if value != default}


@contextmanager
def opened(place: Place, source: Source | None) -> Iterator[Execution]:
    """Whoever computes the turns, ready to run the algorithms of an experiment."""
    if place.engine == "simulator" or source is None:
        yield Execution()
        return
    from idiolect.engines.ray import ActorPool, AgentActor, RayBackend, RayCrew, connected
    from idiolect.engines.ray.actor import TurnActor

    with connected(place.address) as ray, ExitStack() as pools:

        @cache
        def pool(kind: type) -> ActorPool:
            """Actors of a kind, once an algorithm needs them."""
            make = partial(cell_maker, source)
            return pools.enter_context(ActorPool(ray, make, kind=kind, count=place.actors, patience=place.patience))

        yield Execution(
            lambda *cell: RayBackend(pool(TurnActor), *cell), place.clock, lambda *net: RayCrew(pool(AgentActor), *net)
        )


def check_place(place: Place, experiment: Experiment) -> None:
    """Refuse what cannot run there."""
    if place.engine != "ray":
        for name, value in place.chosen().items():
            raise UserMistake(f"--{name} is {value}, which needs --engine ray")
        return
    if place.clock == "real" and experiment.timeline is not None:
        raise UserMistake("--clock is real, but the experiment has a timeline, which only a virtual clock can replay")
    if place.clock == "real" and experiment.rounds is not None:
        raise UserMistake(f"rounds is {experiment.rounds}, but --clock is real; give horizon instead, in seconds")
    for label, line in zip(experiment.labels, experiment.lines, strict=True):
        if place.clock == "real" and is_serverless(line):
            raise UserMistake(
                f"--clock is real, but {label} has no server, whose clock it would be; leave --clock out, or see "
                "idiolect peer for agents in real time"
            )
        if place.clock == "real" and _in_rounds(line):
            raise UserMistake(
                f"--clock is real, but {label} works in rounds; take an asynchronous or buffered protocol, such as "
                "persa_fl_me or fedbuff"
            )


def _in_rounds(line: Line) -> bool:
    protocol = line.protocol if isinstance(line, Algorithm) else catalog.protocol_of(line.name, line.protocol)
    return not isinstance(protocol, Peer) and protocol.schedule.rounds
