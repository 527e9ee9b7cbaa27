"""Laws that run over every cell of the table with a server: all objectives under all such protocols."""

import functools

import jax
import numpy as np
import pytest

from idiolect import catalog
from idiolect.testing import protocol_laws as laws
from idiolect.testing.comparing import same_bytes
from idiolect.testing.server_runs import HORIZON, ServerCell, a_timeline, server_cell
from idiolect.testing.small_clients import noisy_quadratics

LIKE_OTHERS = ("feddyn", "calibrated", "ifca", "l2gd")  # whose clients descend as under scaffold and synchronous


def cells() -> list:
    names = [(objective, protocol) for objective in catalog.OBJECTIVES for protocol in catalog.PROTOCOLS]
    return [
        pytest.param(f"{o}+{p}", marks=pytest.mark.slow) if p in LIKE_OTHERS and o != "plain" else f"{o}+{p}"
        for o, p in names
    ]


CELLS = cells()
OWN_WEIGHTS = {"keep": [], "lambda_p": 0.5, "step_size": 0.05}  # a vector has no first or last layer to keep
OPTIONS = {
    "quantized": OWN_WEIGHTS | {"centers_step_size": 0.05},
    "binary_relax": OWN_WEIGHTS,
    "post_training": OWN_WEIGHTS,
}
PROBLEM = noisy_quadratics(noise=0.5, kind=np.float32)


@functools.cache
def cell(name: str) -> ServerCell:
    """A cell of the table, compiled once for all the tests of this file."""
    return server_cell(PROBLEM, an_algorithm(name))


def an_algorithm(name, **options):
    objective = OPTIONS.get(name.partition("+")[0])
    return catalog.algorithm(name, PROBLEM, objective=objective, step_size=0.02, local_steps=4, batch_size=5, **options)


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_learns_is_reproducible_and_does_not_depend_on_the_engine(name, workers):
    end = laws.runs_are_reproducible(cell(name), workers)
    laws.compiled_once(cell(name))
    assert {leaf.dtype for leaf in jax.tree.leaves(end.params)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("name", CELLS)
def test_no_update_changes_a_type_so_nothing_is_compiled_twice(name):
    laws.updates_keep_their_types(cell(name))


@pytest.mark.parametrize(  # an objective is the client's affair, the buffer the server's
    "objective",
    ["plain", *(pytest.param(name, marks=pytest.mark.slow) for name in catalog.OBJECTIVES if name != "plain")],
)
def test_a_buffer_of_one_is_asynchronous(objective, workers):
    options = {"beta": 0.7, "staleness": "polynomial"}
    alone = server_cell(PROBLEM, an_algorithm(f"{objective}+asynchronous", protocol=options))
    buffered = server_cell(PROBLEM, an_algorithm(f"{objective}+buffered", protocol={**options, "size": 1}))
    ends = [each.run(workers, table=alone.table)[-1] for each in (alone, buffered)]
    assert same_bytes(ends[0].params, ends[1].params)


@pytest.mark.parametrize(
    "name",
    [
        "plain+synchronous",
        "plain+scaffold",
        "moreau+asynchronous",
        "maml+buffered",
        "plain+local",
        "quantized+buffered",
        "plain+ifca",
    ],
)
def test_a_permutation_of_the_clients_permutes_the_results(name, workers):
    laws.clients_are_alike(cell(name), cell(name).run(workers)[-1], workers)


@pytest.mark.parametrize(
    "name",
    ["plain+synchronous", "maml+buffered", "plain+scaffold", "plain+local", "quantized+asynchronous", "plain+ifca"],
)
def test_a_checkpoint_in_the_middle_goes_on_to_the_same_bytes(name, workers):
    laws.checkpoints_go_on(cell(name), cell(name).run(workers)[-1], workers)


def test_clients_alone_never_influence_each_other(workers):
    alone = cell("plain+local")
    table = a_timeline(PROBLEM, alone.program, dropout=0.0)
    everyone = alone.run(workers, table=table)[-1]
    mine = table.client == 2
    # Turns are numbered by row; keeping the rows of the others, undelivered, keeps the numbers.
    one = alone.run(workers, table=table._replace(delivered=mine))[-1]
    assert set(one.personal) == {2}
    assert same_bytes(everyone.personal[2], one.personal[2])


def test_a_snapshot_does_not_disturb_the_run(workers):
    ready = cell("maml+asynchronous")
    often = ready.run(workers, times=np.linspace(0, HORIZON, 17).tolist())
    assert same_bytes(often[-1].params, ready.run(workers)[-1].params)
    assert [snapshot.updates for snapshot in often] == [
        int((ready.table.arrived[ready.table.delivered] <= snapshot.time).sum()) for snapshot in often
    ]


def beside() -> list:
    """A client's part is its objective's and its protocol's: each of both once, and all pairs in the slow tests."""
    fast = {"plain+synchronous", "maml+asynchronous", "moreau+scaffold", "quantized+buffered", "plain+ifca"}
    names = [cell if isinstance(cell, str) else cell.values[0] for cell in CELLS]
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", beside())
def test_turns_go_side_by_side(name, workers):
    laws.turns_go_side_by_side(cell(name), cell(name).run(workers)[-1], workers)
