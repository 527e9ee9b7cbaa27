"""Some agents of a network on an actor, as pure functions: built, put back to a round, heard speaking, made to hear."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Message, PyTree
from idiolect.engines.ray.actor import CellMaker, only, without_data
from idiolect.engines.ray.agent_parts import Setting
from idiolect.engines.ray.packed_arrays import Leaves, Packed, leaves_of, packed, unpacked
from idiolect.engines.serverless.layout import Layout, State, rows_of_all
from idiolect.engines.serverless.peer_program import PeerProgram, Woken, prepare_peers
from idiolect.engines.simulator.server_program import training_key


class OutOfStep(Exception):
    """A round was asked for that does not follow the last one: a call before it has failed."""


class Stage(NamedTuple):
    """Some agents of a network, as far as they have come."""

    setting: Setting
    program: PeerProgram
    layout: Layout
    structure: Any  # of a state
    state: State | None = None
    woken: Woken | None = None  # who has spoken in this round, and not heard yet
    round: int = -1


def build_stage(make: CellMaker, setting: Setting) -> Stage:
    """A part of a network, with its agents' rows and no others."""
    built = {seed: make(setting.label, seed) for seed in setting.seeds}
    problem, algorithm = built[setting.seeds[0]]
    program = prepare_peers(without_data(problem), algorithm)
    members = {seed: np.array(one.clients.participating)[setting.places] for seed, (one, _) in built.items()}
    with jax.enable_x64(True):
        kept = {seed: only(one.clients.train, members[seed].tolist()) for seed, (one, _) in built.items()}
        rows, begins = rows_of_all([kept[seed] for seed in setting.seeds])
        starts = [kept[seed].starts[members[seed]] + begin for seed, begin in zip(setting.seeds, begins, strict=True)]
        arrays: dict[str, Any] = {name: jnp.asarray(array) for name, array in setting.arrays.items()}
        layout = Layout(
            **{"degrees_in": None, **arrays},
            rows=rows,
            starts=jnp.asarray(np.concatenate(starts).astype(np.int32)),
            sizes=jnp.asarray(np.concatenate([kept[seed].sizes[members[seed]] for seed in setting.seeds])),
            keys=jnp.stack([training_key(seed) for seed in setting.seeds]),
            numbers=_numbers(algorithm, setting.numbers),
        )
    return Stage(setting, program, layout, _structure(program, layout, setting))


def _numbers(algorithm: Algorithm, leaves: Leaves) -> PyTree:
    family = algorithm.objective.family
    if family is None or not leaves:
        return ()
    return jax.tree.unflatten(jax.tree.structure(family.numbers), [jnp.asarray(leaf) for leaf in leaves])


def _structure(program: PeerProgram, layout: Layout, setting: Setting) -> Any:
    """How a state is built, of which only leaves travel."""
    key, agents = jax.random.key(setting.seeds[0]), len(layout.degrees)
    model = program.init(key)
    rows = partial(jax.tree.map, lambda leaf: np.broadcast_to(leaf, (agents, *np.shape(leaf))))
    own = rows(program.algorithm.objective.begin(model, 0, key))
    with jax.enable_x64(True):
        return jax.tree.structure(
            jax.eval_shape(lambda own, layout: program.open(rows(model), own, layout, setting.ring), own, layout)
        )


def put_back(stage: Stage, round: int, numbers: Sequence[int], sent: Packed) -> Stage:
    """The agents as they are before this round: the leaves of these numbers are sent, the others as they were."""
    leaves: list[Any] = [None] * stage.structure.num_leaves if stage.state is None else jax.tree.leaves(stage.state)
    with jax.enable_x64(True):
        for number, leaf in zip(numbers, unpacked(sent)[0], strict=True):
            leaves[number] = jnp.array(leaf)  # a copy, since it will be overwritten
    return stage._replace(state=jax.tree.unflatten(stage.structure, leaves), woken=None, round=round)


def said_in(stage: Stage, round: int) -> tuple[Stage, Packed]:
    """The first half of a round: who wakes learns and speaks. The second result is what others hear of that."""
    if stage.state is None or stage.woken is not None or stage.round != round:
        raise OutOfStep(f"round {round} was asked for, but {stage.round} is next")
    setting, who = stage.setting, np.asarray(stage.setting.arrays["wakers"][round])
    with jax.enable_x64(True):
        woken = stage.program.speak(stage.state, stage.layout, np.int32(round), setting.crowd)
    there = np.flatnonzero(who < setting.speaks.shape[1])
    sending = there[setting.speaks[round, who[there]]]
    told = [leaf[sending] for leaf in leaves_of(woken.message)]
    return stage._replace(woken=woken), packed([[setting.voices[who[sending]], *told]])


def heard_by(stage: Stage, round: int, messages: Sequence[Packed]) -> Stage:
    """The second half of a round: who woke takes in what it was told, here and by others."""
    if stage.state is None or stage.woken is None or stage.round != round:
        raise OutOfStep(f"the messages of round {round} have come, but {stage.round} is under way")
    with jax.enable_x64(True):
        others = _voices(stage, stage.state, messages)
        state = stage.program.listen(
            stage.state, stage.layout, stage.woken, others, np.int32(round), stage.setting.crowd
        )
    return stage._replace(state=state, woken=None, round=round + 1)


def _voices(stage: Stage, state: State, messages: Sequence[Packed]) -> Message:
    """What all others say that agents here ever hear; nothing reads the rows of those whose message has not come."""
    outside = stage.setting.voices[len(stage.layout.degrees) :]
    shapes, structure = jax.tree.leaves(state.spoken), jax.tree.structure(state.spoken)
    rows = [np.zeros((len(outside), *leaf.shape[2:]), leaf.dtype) for leaf in shapes]
    for message in messages:
        ((speakers, *told),) = unpacked(message)
        place = np.searchsorted(outside, speakers)
        known = np.flatnonzero(np.isin(speakers, outside))
        for row, leaf in zip(rows, told, strict=True):
            row[place[known]] = leaf[known]
    found: Message = jax.tree.unflatten(structure, rows)
    return found
