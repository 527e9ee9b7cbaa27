"""The laws of protocols with a server, each a function, and `check_protocol`, which checks them all."""

from collections.abc import Callable
from itertools import count
from typing import Any

import jax
import numpy as np

from idiolect.contracts import Algorithm, Objective, Protocol, Split
from idiolect.engines import Snapshot, Workers
from idiolect.engines.checkpointing import Checkpoint
from idiolect.engines.screening import misfit, shapes_of
from idiolect.engines.simulator.server_program import Arrival, open_server, training_key
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.network.timelines import events
from idiolect.objectives import plain
from idiolect.testing.comparing import (
    Training,
    apart,
    changed,
    difference,
    kinds,
    made_from,
    require,
    same_bytes,
    works,
)
from idiolect.testing.server_runs import HORIZON, ServerCell, server_cell
from idiolect.testing.small_clients import noisy_quadratics

FALLS_TO = 0.9  # of the loss at first: whoever learns at all is below
WIDTH = 3  # turns side by side
ROUNDING = 1e-4  # of small numbers, after some hundred turns


def check_protocol(
    protocol: Protocol | Callable[..., Protocol],
    *,
    objective: Objective | None = None,
    learns: bool = True,
    training: Training = Training(),
    **options: Any,
) -> None:
    """Check the laws that every protocol with a server obeys, on small noisy quadratics.

    No update changes a type, so that nothing is compiled twice; what clients send has the structure of what they are
    offered; runs have the same bytes on the fast engine and on the stepwise one, for any number of workers, when they
    are repeated, and when they go on from a checkpoint; another seed has other bytes; a permutation of the clients
    permutes the results; and the loss falls.

    Args:
        protocol: One's own protocol, or the factory that makes it.
        objective: What clients minimise meanwhile; by default their own loss.
        learns: Whether the loss must fall. Switch it off for a protocol that is not meant to learn by itself.
        training: How clients descend.
        options: Of the factory.

    Raises:
        AssertionError: A law is broken; the sentence says which, and by how much.
        UserMistake: There is nothing to check, or the objective refuses the problem.

    Example:
        >>> from idiolect import protocols
        >>> from idiolect.testing import check_protocol
        >>> check_protocol(protocols.buffered, size=2)
    """
    made: Protocol = made_from(Protocol, protocol, options)
    problem = noisy_quadratics(noise=0.5, kind=np.float32)
    cell = server_cell(problem, Algorithm("yours", objective or plain(), made, *training))
    updates_keep_their_types(cell)
    with Workers(2) as workers:
        end = runs_are_reproducible(cell, workers, learns=learns)
        clients_are_alike(cell, end, workers)
        checkpoints_go_on(cell, end, workers)
        turns_go_side_by_side(cell, end, workers)
    compiled_once(cell)


def updates_keep_their_types(cell: ServerCell) -> None:
    """A server's state, and what a client keeps, have the same types after an update; and an upload fits its offer."""
    program, clients, law = cell.program, cell.problem.clients, "no update changes a type"
    state = open_server(program, program.init(jax.random.key(0)), len(clients.participating), clients.total)
    opened, offer, zero = kinds(state), program.protocol.server.offer(state.server), np.int32(0)
    before = program.work.init(offer, 0, jax.random.key(0))
    turn = works(
        "a turn can be compiled",
        f"{cell.name}: the first turn of a client",
        lambda: program.turn(before, offer, clients.train.shard(0), training_key(0), zero),
    )
    wrong = misfit(turn.upload, shapes_of(program.protocol.sends(offer)))
    require(
        not wrong, "what clients send has the structure of what they are offered", f"{cell.name}: an upload {wrong}"
    )
    # An engine would bring back to its type what an update has changed, and lose digits on the way.
    absorbed = works(
        law,
        f"{cell.name}: to absorb an update",
        lambda: jax.eval_shape(program.protocol.server.absorb, state.server, turn.upload, np.float32(0)),
    )
    for what, after, first in (
        ("the server's state", absorbed, state.server),
        ("what a client keeps", turn.personal, before),
    ):
        wrong = difference(after, first)
        require(not wrong, law, f"{cell.name}: after one update {what} {wrong}")
    state, kept = works(
        law,
        f"{cell.name}: to absorb an update",
        lambda: program.absorb(state, before, turn, Arrival(zero, zero, np.float32(0))),
    )
    moved = changed(opened, kinds(state._replace(totals={})))
    require(not moved, law, f"{cell.name}: after one update the server's state {moved}")
    moved = changed(kinds(state), kinds(program.close(state)))
    require(not moved, law, f"{cell.name}: after a round the server's state {moved}")
    moved = changed(kinds(before), kinds(kept))
    require(not moved, law, f"{cell.name}: after a turn what a client keeps {moved}")


def compiled_once(cell: ServerCell) -> None:
    """All clients, in all their turns, share one compiled program."""
    programs = getattr(cell.program.turn, "_cache_size", lambda: 1)()
    require(programs == 1, "nothing is compiled twice", f"{cell.name}: a client's turn was compiled {programs} times")


def runs_are_reproducible(cell: ServerCell, workers: Workers, *, learns: bool = True) -> Snapshot:
    """Nothing but the seed matters to a run, on whichever engine; and it learns. Returns the end of the run."""
    start, end = works(
        "a run comes to its end",
        f"{cell.name}: a run on small quadratics",
        lambda: cell.run(workers, times=(0.0, HORIZON)),
    )
    _same("same seed, same bytes", cell, end, cell.run(workers)[-1])
    engines_agree(cell, end)
    with Workers(5) as more:
        _same("results do not depend on the number of workers", cell, end, cell.run(more)[-1])
    other = cell.run(workers, seed=1)[-1]
    require(
        not same_bytes(_all(end), _all(other)),
        "another seed, other bytes",
        f"{cell.name}: seeds 0 and 1 end with the same model, as if nothing were drawn",
    )
    moved = changed(kinds(start.params), kinds(end.params))
    require(not moved, "no update changes a type", f"{cell.name}: at the end of a run the model {moved}")
    if learns:
        falls(cell.name, cell.loss(start), cell.loss(end))
    return end


def engines_agree(cell: ServerCell, end: Snapshot) -> None:
    """The fast engine ends with the bytes of the stepwise one."""
    params, personal = run_stepwise(cell.program, cell.problem.clients, cell.table, seed=0)
    stepwise = (params, {client: personal[client] for client in end.personal})
    gap = apart(_all(end), stepwise)
    require(
        same_bytes(_all(end), stepwise),
        "the fast and the stepwise engine agree to the byte",
        f"{cell.name}: they end up to {gap:.3g} apart",
    )


def falls(name: str, before: float, after: float) -> None:
    """The loss at the end is well below that at first."""
    require(
        after < FALLS_TO * before,
        "it learns",
        f"{name}: the mean loss of the clients went from {before:.4g} to {after:.4g}, but must fall below "
        f"{FALLS_TO * before:.4g}",
    )


def clients_are_alike(cell: ServerCell, end: Snapshot, workers: Workers) -> None:
    """Clients under other numbers have the same results under those numbers."""
    clients, table, law = cell.problem.clients, cell.table, "a permutation of the clients permutes the results"
    order = np.random.default_rng(0).permutation(clients.total)  # new client k is old client order[k]
    place = np.argsort(order)

    def permuted(split: Split) -> Split:
        return Split(split.rows, split.starts[order], split.sizes[order])

    renamed = table._replace(client=place[table.client].astype(np.int32))
    moved = cell.run(workers, clients=clients._replace(train=permuted(clients.train)), table=renamed)[-1]
    gap = apart(end.params, moved.params)
    require(same_bytes(end.params, moved.params), law, f"{cell.name}: the shared model is {gap:.3g} away")
    for client, state in end.personal.items():
        theirs = moved.personal[int(place[client])]
        gap = apart(state, theirs)
        require(same_bytes(state, theirs), law, f"{cell.name}: what client {client} keeps is {gap:.3g} away")


def checkpoints_go_on(cell: ServerCell, end: Snapshot, workers: Workers) -> None:
    """A run that is saved in the middle goes on to the same bytes."""
    saved = _in_the_middle(cell, workers)
    _same("a checkpoint goes on to the same bytes", cell, end, cell.run(workers, saved=saved)[-1])


def turns_go_side_by_side(cell: ServerCell, end: Snapshot, workers: Workers) -> None:
    """Several turns in one computation are those turns one by one to rounding, and the same bytes for one width."""
    together = works(
        "turns go side by side",
        f"{cell.name}: a run on small quadratics, {WIDTH} turns at a time",
        lambda: cell.run(workers, width=WIDTH)[-1],
    )
    gap = apart(_all(end), _all(together))
    require(gap < ROUNDING, "turns go side by side", f"{cell.name}: one by one they end {gap:.3g} away")
    law = "for one width, who shares a computation changes nothing"
    with Workers(3) as others:  # who look further ahead, so that batches are others
        _same(law, cell, together, cell.run(others, width=WIDTH)[-1])
    saved = _in_the_middle(cell, workers, width=WIDTH)
    _same(law, cell, together, cell.run(workers, width=WIDTH, saved=saved)[-1])


def _in_the_middle(cell: ServerCell, workers: Workers, width: int = 1) -> Checkpoint:
    """What a run saves halfway."""
    saved: list[Checkpoint] = []
    half, done = len(events(cell.table)) // 2, count(1)

    def tick(time: float, save: Callable[[], Checkpoint]) -> None:
        if next(done) == half:
            saved.append(save())

    cell.run(workers, tick=tick, width=width)
    return saved[0]


def _all(snapshot: Snapshot) -> tuple[Any, Any]:
    return snapshot.params, dict(snapshot.personal)


def _same(law: str, cell: ServerCell, end: Snapshot, again: Snapshot) -> None:
    gap = apart(_all(end), _all(again))
    require(same_bytes(_all(end), _all(again)), law, f"{cell.name}: two runs end up to {gap:.3g} apart")
