"""The laws over the catalog hold where the loss is PyTorch's: every named algorithm, with a server and without one."""

import functools

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")

from idiolect import catalog  # noqa: E402
from idiolect.contracts import StepRule  # noqa: E402
from idiolect.engines import Workers  # noqa: E402
from idiolect.testing import peer_laws, protocol_laws  # noqa: E402
from idiolect.testing.peer_runs import ONCE, ROUGH, a_lane, peer_program  # noqa: E402
from idiolect.testing.server_runs import ServerCell, mean_loss, server_cell  # noqa: E402
from tests.torch.regressions import regression  # noqa: E402

OWN_WEIGHTS = {"keep": ["first"], "lambda_p": 0.5, "step_size": 0.05}
OBJECTIVES = {
    "ditto": {"step_size": 0.1},
    "moreau": {"lambda": 15.0, "iterations": 3},
    "quantized": OWN_WEIGHTS | {"centers_step_size": 0.05},
    "binary_relax": OWN_WEIGHTS,
    "post_training": OWN_WEIGHTS,
}
PROTOCOLS = {name: {"server": {"step_size": 0.1}} for name in ("fedadam", "fedyogi", "fedadagrad")}
STEPS = 6  # more than FedRep's five on the private part


NAMES = {serverless: [n for n in catalog.ALGORITHMS if catalog.serverless(n) == serverless] for serverless in (0, 1)}


def quick_then_slow(names: list[str], quick: set[str]) -> list:
    """By `call` those that are quick, then all the others by either bridge."""
    cells = [(name, bridge) for bridge in ("call", "trace") for name in names]
    return [pytest.param(n, b, marks=() if b == "call" and n in quick else pytest.mark.slow) for n, b in cells]


def first_of_their_kind(names: list[str]) -> set[str]:
    """Those that bring an objective, a protocol or a way of sharing that none before them has."""
    cells = {name: catalog.cell(name) for name in names}
    firsts = [
        {getattr(cell, part): name for name, cell in reversed(cells.items())} for part in ("objective", "protocol")
    ]
    firsts.append({str(cell.sharing): name for name, cell in reversed(cells.items())})
    return {name for first in firsts for name in first.values()}


@functools.cache
def problem(bridge: str, kind: type):
    if bridge == "trace":
        pytest.importorskip("torchax", reason="torchax is not installed: pip install 'idiolect[torchax]'")
    with jax.enable_x64(kind is np.float64):
        return regression(kind, bridge=bridge)


def algorithm(name: str, where, **options):
    return catalog.algorithm(
        name,
        where,
        objective=OBJECTIVES.get(catalog.cell(name).objective),
        protocol=PROTOCOLS.get(name),
        step_size=0.1,
        batch_size=5,
        **options,
    )


@functools.cache
def cell(name: str, bridge: str) -> ServerCell:
    where = problem(bridge, np.float32)
    return server_cell(where, algorithm(name, where, local_steps=STEPS))


@pytest.mark.parametrize(("name", "bridge"), quick_then_slow(NAMES[0], first_of_their_kind(NAMES[0])))
def test_with_a_server_everyone_learns_is_reproducible_and_keeps_its_types(name, bridge, workers):
    protocol_laws.updates_keep_their_types(cell(name, bridge))
    protocol_laws.runs_are_reproducible(cell(name, bridge), workers)
    protocol_laws.compiled_once(cell(name, bridge))


@pytest.mark.parametrize(("name", "bridge"), quick_then_slow(NAMES[0], {"per_fedavg", "fedrep"}))
def test_with_a_server_clients_are_alike_and_checkpoints_go_on(name, bridge, workers):
    end = cell(name, bridge).run(workers)[-1]
    protocol_laws.clients_are_alike(cell(name, bridge), end, workers)
    protocol_laws.checkpoints_go_on(cell(name, bridge), end, workers)


@pytest.mark.parametrize(("name", "bridge"), quick_then_slow(NAMES[1], {"pars_push", "sgp", "dpsgd"}))
def test_without_a_server_engines_agree_mass_is_conserved_and_agents_learn(name, bridge):
    where = problem(bridge, np.float64)
    with jax.enable_x64(True):
        mine = algorithm(name, where, local_steps=2, step_rule=StepRule("decreasing", 2.0))
    program, sums = peer_program(where, mine), mine.protocol.carries == "sums"
    lanes = [a_lane(where), a_lane(where, ROUGH if sums else ONCE, draw=6)]
    peer_laws.wakings_keep_their_types(where, mine.protocol)
    with Workers(1) as workers:
        agents = peer_laws.engines_agree(where, program, lanes, workers)
        peer_laws.runs_are_reproducible(program, lanes, workers)
        if mine.protocol.carries != "copies":
            peer_laws.mass_is_conserved(program, lanes, workers, first=0 if sums else 1)
    with jax.enable_x64(True):
        first, key = where.init(jax.random.key(0)), jax.random.key(0)
        before = mean_loss(where, mine.objective, lambda i: first, lambda i: mine.objective.begin(first, i, key))
        after = mean_loss(where, mine.objective, lambda i: mine.protocol.read(agents[i].state), lambda i: agents[i].own)
    protocol_laws.falls(name, before, after)
