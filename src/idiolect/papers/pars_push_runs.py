"""Runs of PARS-Push for its theorems: many settings and seeds side by side, on problems whose minimisers are known.

Lanes of one program differ in their links, so one compiled program runs all of them. What is measured is kept in a file
for each measurement, and is not run again.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from idiolect import catalog
from idiolect.contracts import Problem, StepRule
from idiolect.engines.serverless import Lane, PeerProgram, prepare_peers
from idiolect.engines.serverless.layout import State, build_layout, first_models, first_own
from idiolect.errors import Diverged
from idiolect.files import write_atomically
from idiolect.network.round_tables import oldest, taken_in
from idiolect.network.topologies import Wire, exponential
from idiolect.network.unreliable_links import Links, draw_rounds


class Course(NamedTuple):
    """What the agents of a lane have come to at some times."""

    models: np.ndarray  # (time, agent, d): z_i
    average: np.ndarray  # (time, d): X(t)'1/n, what is under way included


class Settings(NamedTuple):
    """How agents learn, alike in all lanes."""

    algorithm: str
    objective: dict[str, Any]
    step_size: float
    step_rule: StepRule
    batch_size: int = 1
    wire: Wire = exponential()


def courses(
    problems: Sequence[Problem], links: Sequence[Links], settings: Settings, seeds: Sequence[int], times: Sequence[int]
) -> list[list[Course]]:
    """For each of the links, and each seed with its problem, what became of the agents."""
    first, agents = problems[0], problems[0].clients.total
    algorithm = catalog.algorithm(
        settings.algorithm,
        first,
        objective=settings.objective,
        step_size=settings.step_size,
        batch_size=settings.batch_size,
        step_rule=settings.step_rule,
    )
    program = prepare_peers(first, algorithm)
    graph = settings.wire(agents, np.random.default_rng(0))
    lanes = [
        Lane(problem.clients, draw_rounds(one, graph, times[-1], seed), seed)
        for one in links
        for problem, seed in zip(problems, seeds, strict=True)
    ]
    models, descended = _seen(program, lanes, times)
    if not np.isfinite(models).all():
        raise Diverged(f"{settings.algorithm} diverged; a smaller step size may help")
    start = np.asarray(first.init(jax.random.key(0)), np.float64)
    found = [
        Course(models[:, k : k + agents], start - descended[:, k : k + agents].mean(1))  # (104): only steps change it
        for k in range(0, models.shape[1], agents)
    ]
    return [found[k : k + len(seeds)] for k in range(0, len(found), len(seeds))]


def _seen(program: PeerProgram, lanes: Sequence[Lane], times: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """What all agents of all lanes have, and by how much they have descended, at these times; one compiled program."""
    starts = [first_models(lane, program.init(jax.random.key(lane.seed))) for lane in lanes]
    own = first_own(program.algorithm, lanes, starts)
    with jax.enable_x64(True):  # agents add up in 64 bits
        layout = build_layout(program.algorithm, lanes, starts[0], program.peer.carries == "sums")
        ring = 1 + max(oldest(lane.table, taken_in(lane.table)) for lane in lanes)
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *starts)
        state = program.open(joined, own, layout, ring)

        def look(state: State, between: tuple[Any, Any]) -> tuple[State, tuple[Any, Any]]:
            state = program.advance(state, layout, *between)
            return state, (program.models(state), state.descended)

        pauses = np.asarray(times, np.int32)
        begun = np.append(np.int32(0), pauses[:-1])
        _, (models, descended) = jax.jit(lambda state: jax.lax.scan(look, state, (begun, pauses)))(state)
        return np.asarray(models, np.float64), np.asarray(descended, np.float64)


def kept(path: Path, asked: dict[str, Any], measure: Callable[[], np.ndarray]) -> np.ndarray:
    """What a file says that was measured for the same; or measure it, and write it down."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        found = {}
    if not isinstance(found, dict) or found.get("asked") != asked:
        found = {"asked": asked, "measured": measure().tolist()}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(found).encode())
    return np.array(found["measured"], float)
