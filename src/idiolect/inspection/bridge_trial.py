"""Both bridges to another library's model tried on this machine, and which one to take."""

import time
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idiolect.contracts import Algorithm, Problem
from idiolect.engines.learner import descent
from idiolect.engines.workers import compile_for_clients
from idiolect.errors import UserMistake
from idiolect.inspection.inspection_tables import duration

_TAKEN = 3  # updates, of which the fastest counts
_LIKE = 1.15  # times that differ by less are called alike


class Crossing(NamedTuple):
    """What a client's update takes by one bridge, after it was compiled, and what compiling takes."""

    bridge: str
    seconds: float
    compile_seconds: float


def bridge_advice(problem: Problem, algorithm: Algorithm) -> list[str]:
    """A sentence on the faster bridge, by an update of this algorithm on the first client; empty without bridges."""
    if problem.origin is None:
        return []
    tried, lacking = [cross(problem, algorithm)], []
    for name, make in problem.origin.others.items():
        try:
            tried.append(cross(make(), algorithm))
        except UserMistake as reason:
            lacking.append(f"bridge='{name}' could not be tried: {reason}.")
        except Exception as reason:  # a library that makes JAX code of a module does not know every operator
            said = str(reason).strip().partition("\n")[0]
            lacking.append(f"bridge='{name}' cannot run this module: {type(reason).__name__}: {said}.")
    return [_advice(problem.origin.library, algorithm, tried), *lacking] if len(tried) > 1 else lacking


def cross(problem: Problem, algorithm: Algorithm) -> Crossing:
    """Take a few updates on the first client that takes part."""
    assert problem.origin is not None
    client = problem.clients.participating[0]
    objective, first, key = algorithm.objective, jax.random.key(0), jax.random.key(1)
    params = objective.shared(problem.init(first))
    own = objective.begin(params, client, first)
    update = compile_for_clients(descent(problem, algorithm))
    stamps = [time.perf_counter()]
    for _ in range(1 + _TAKEN):
        ended = update(own, params, problem.clients.train.shard(client), key, jnp.float32(algorithm.step_size))
        jax.block_until_ready(ended)  # type: ignore[no-untyped-call]
        stamps.append(time.perf_counter())
    compiled, *others = [after - before for before, after in pairwise(stamps)]
    return Crossing(problem.origin.bridge, min(others), max(0.0, compiled - min(others)))


def _advice(library: str, algorithm: Algorithm, tried: list[Crossing]) -> str:
    told = ", ".join(
        f"{duration(each.seconds)} by bridge='{each.bridge}' ({duration(each.compile_seconds)} to compile)"
        for each in tried
    )
    taken, best = tried[0], min(tried, key=lambda each: each.seconds)
    verdict = f"take bridge='{best.bridge}'"
    if best is taken:
        verdict = f"bridge='{taken.bridge}' is the faster one"
    elif taken.seconds < _LIKE * best.seconds:
        verdict = "there is little between them"
    return f"{library}: an update of {algorithm.name} on one core takes {told}: {verdict}."
