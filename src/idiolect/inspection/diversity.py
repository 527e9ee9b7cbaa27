"""Diversity of clients: how far their gradients and Hessians lie apart at the start of training.

A. Fallah, A. Mokhtari, A. Ozdaglar. Per-FedAvg. 2020, Assumption 5:
gamma_G^2 >= (1/n) sum_i ||grad f_i(w) - grad f(w)||^2 (16a) and gamma_H^2 >= (1/n) sum_i ||Hess f_i(w) - Hess f(w)||^2
(16b) for all w, in the spectral norm. Here w is the model that training starts with, so both are lower bounds of the
assumption's constants: elsewhere clients may differ more.

Deviations: work is bounded. Of many clients some are drawn; of many rows the first (their order is random); Hessians
are never formed: their norms are found after Lanczos, from products with vectors, from below. Where f_i is estimated on
batches, gamma_G^2 is free of their noise on average (two halves of the batches are multiplied), gamma_H is not.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from idiolect.contracts import Params, Problem, Shard
from idiolect.inspection.local_losses import LocalLosses, local_losses

GRADIENTS, HESSIANS = 64, 8  # clients, at most
_NUMBERS = 20_000_000  # held in gradients, at most
_ROWS = {"gradient": 1024, "hessian": 256}  # of a client, at most
_BATCHES = {"gradient": 64, "hessian": 16}  # where there are no rows to go through
_OPERATIONS = 2e11  # of floating point, about: some ten seconds of one core
_LANCZOS = 32  # steps


class Diversity(NamedTuple):
    """gamma_G and gamma_H at the start, and what they were found on."""

    gradient: float  # gamma_G
    hessian: float  # gamma_H
    mean_gradient: float  # ||grad f||, for a scale
    mean_hessian: float  # ||Hess f||
    deviations: dict[int, float]  # ||grad f_i - grad f|| by client
    gradient_clients: int
    gradient_draws: int  # of each client, at most
    hessian_clients: int
    hessian_draws: int
    by_row: bool  # whether draws are rows of the training part, or batches
    parameters: int


def diversity(problem: Problem, chosen: Sequence[int], *, batch_size: int, seed: int) -> Diversity:
    """Of these participating clients (some, if they are many or the model is large), at the model of this seed."""
    params = problem.init(jax.random.key(seed))
    flat, back = ravel_pytree(params)
    losses = local_losses(problem, batch_size)
    clients = list(chosen[: max(2, min(GRADIENTS, _NUMBERS // flat.size))])
    few = clients[:HESSIANS]
    work = _Work(problem, losses, params, back)
    halves, draws = work.gradients(clients)
    first, second = (half - half.mean(0) for half in halves)
    squares = (first * second).sum(1)
    deviations = np.sqrt(np.maximum(squares, 0))
    norms, mean_norm, hessian_draws = work.hessian_norms(few)
    return Diversity(
        math.sqrt(max(float(squares.mean()), 0.0)),
        float(np.sqrt(np.mean(np.square(norms)))),
        math.sqrt(max(float(halves[0].mean(0) @ halves[1].mean(0)), 0.0)),
        mean_norm,
        dict(zip(clients, deviations.tolist(), strict=True)),
        len(clients),
        draws,
        len(few),
        hessian_draws,
        losses.by_row,
        int(flat.size),
    )


class _Work:
    """The compiled derivatives of a problem's clients at one model."""

    def __init__(
        self, problem: Problem, losses: LocalLosses, params: Params, back: Callable[[jax.Array], Params]
    ) -> None:
        self._train, self._losses, self._params, self._back = problem.clients.train, losses, params, back

    def gradients(self, clients: Sequence[int]) -> tuple[list[np.ndarray], int]:
        """Every client's gradient, twice: the same, or from two halves of the batches; and how many draws at most."""

        def flat_gradient(params: Params, shard: Shard, begin: Any, end: Any) -> jax.Array:
            return ravel_pytree(self._losses.gradient(params, shard, begin, end))[0]

        example = (self._params, self._train.shard(clients[0]), np.int32(0), np.int32(1))
        compiled, cost = _compiled(flat_gradient, example)
        counts = self._counts(clients, "gradient", cost * len(clients))

        def found(begins: Sequence[int], ends: Sequence[int]) -> np.ndarray:
            rows = [
                np.asarray(
                    compiled(self._params, self._train.shard(client), np.int32(begin), np.int32(end)), np.float64
                )
                for client, begin, end in zip(clients, begins, ends, strict=True)
            ]
            return np.stack(rows)

        if self._losses.by_row:
            whole = found([0] * len(clients), counts)
            return [whole, whole], max(counts)
        middle = [count // 2 for count in counts]
        return [found([0] * len(clients), middle), found(middle, counts)], max(counts)

    def hessian_norms(self, clients: Sequence[int]) -> tuple[list[float], float, int]:
        """||Hess f_i - Hess f|| of every client, ||Hess f||, and how many draws at most."""

        def products(params: Params, vector: jax.Array, rows: Any, shards: Any, ends: Any) -> jax.Array:
            """Every client's Hessian times the vector."""

            def one(place: Any) -> jax.Array:
                shard, end = Shard(rows, *place[:2]), place[2]
                return ravel_pytree(self._losses.product(params, self._back(vector), shard, jnp.int32(0), end))[0]

            return jax.lax.map(one, (*shards, ends))

        train, index = self._train, np.asarray(clients)
        shards = (train.starts[index].astype(np.int32), train.sizes[index].astype(np.int32))
        size = ravel_pytree(self._params)[0].size
        example = (self._params, np.zeros(size, np.float32), train.rows, shards, np.ones(len(clients), np.int32))
        compiled, cost = _compiled(products, example)
        steps = (len(clients) + 1) * min(_LANCZOS, size)
        counts = np.asarray(self._counts(clients, "hessian", cost * len(clients) * steps), np.int32)

        def all_products(vector: np.ndarray) -> np.ndarray:
            return np.asarray(compiled(self._params, vector.astype(np.float32), train.rows, shards, counts), np.float64)

        def apart(client: int) -> Callable[[np.ndarray], np.ndarray]:
            def product(vector: np.ndarray) -> np.ndarray:
                every = all_products(vector)
                return every[client] - every.mean(0)

            return product

        norms = [spectral_norm(apart(k), size) for k in range(len(clients))] if len(clients) > 1 else [0.0]
        return norms, spectral_norm(lambda v: all_products(v).mean(0), size), int(counts.max())

    def _counts(self, clients: Sequence[int], kind: str, cost: float) -> list[int]:
        """How many draws of each client: all rows, unless that is too many, or too much work at `cost` per draw."""
        most = (_ROWS if self._losses.by_row else _BATCHES)[kind]
        affordable = int(_OPERATIONS / max(cost / self._losses.at_once, 1.0))
        limit = min(most, max(4, affordable))
        if not self._losses.by_row:
            return [limit] * len(clients)
        return [min(limit, int(self._train.sizes[client])) for client in clients]


def _compiled(function: Callable[..., jax.Array], example: tuple[Any, ...]) -> tuple[Callable[..., jax.Array], float]:
    """The function, compiled, and the floating-point operations of one step of its loop as the compiler counts them."""
    compiled = jax.jit(function).lower(*example).compile()
    counted = compiled.cost_analysis()
    return compiled, float((counted or {}).get("flops", 0.0))


def spectral_norm(product: Callable[[np.ndarray], np.ndarray], size: int, *, accuracy: float = 1e-3) -> float:
    """The largest absolute eigenvalue of a symmetric matrix, from products with vectors, after Lanczos.

    Basis vectors are orthogonalized against all before. After as many steps as the matrix has rows it is exact;
    before, it is a lower bound, good to about `accuracy` unless steps run out.
    """
    from scipy.linalg import eigh_tridiagonal

    vector = np.random.default_rng(0).standard_normal(size)
    basis = [vector / np.linalg.norm(vector)]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(_LANCZOS, size)):
        image = product(basis[-1])
        diagonal.append(float(image @ basis[-1]))
        for _ in range(2):  # twice is enough
            image = image - np.stack(basis).T @ (np.stack(basis) @ image)
        length = float(np.linalg.norm(image))
        values, vectors = eigh_tridiagonal(diagonal, beside)
        best = int(np.abs(values).argmax())
        if length * abs(vectors[-1, best]) <= accuracy * abs(values[best]) or length == 0:
            break
        beside.append(length)
        basis.append(image / length)
    return float(abs(values[best]))
