"""Synchronous with everyone and no delay equals a hand-written FedAvg loop, bit for bit (design's first law)."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect import catalog
from idiolect.engines import Workers, prepare, simulate
from idiolect.engines.simulator.server_program import training_key
from idiolect.engines.workers import COMPILER_OPTIONS
from idiolect.network import timeline
from idiolect.problems import classification
from idiolect.problems.data.datasets import load_images
from idiolect.problems.data.partitions import by_classes
from idiolect.problems.models.networks import mlp

CLIENTS, ROUNDS, STEPS, RATE, BATCH = 4, 3, 5, 0.1, 16


def test_fedavg_bit_for_bit():
    images = load_images("digits")
    problem = classification("digits", images, mlp((8, 8, 1), 10), by_classes(classes=5), clients=CLIENTS, seed=0)
    algorithm = catalog.algorithm("fedavg", problem, local_steps=STEPS, step_size=RATE, batch_size=BATCH)
    rounds = np.repeat(np.arange(ROUNDS), CLIENTS)
    table = timeline(np.tile(np.arange(CLIENTS), ROUNDS), rounds * 1.0, rounds + 1.0, round=rounds)
    with Workers(2) as workers:
        end = list(simulate(prepare(problem, algorithm), problem.clients, table, workers, seed=5, times=[9.0]))[-1]

    @jax.jit
    def average(w, differences):
        total = optax.tree.zeros_like(w)
        for difference in differences:
            total = optax.tree.add_scale(total, jnp.float32(1), difference)
        return optax.tree.add_scale(w, -jnp.float32(1) / len(differences), total)

    def local(w, start, size, key):
        rows, received = problem.clients.train.rows, w

        def loss(w, key):
            index = start + (jax.random.bits(key, (BATCH,)) % size.astype(np.uint32)).astype(np.int32)
            x = rows["image"][index].reshape(BATCH, -1)
            for layer in w[:-1]:
                x = jax.nn.elu(x @ layer["weight"] + layer["bias"])
            logits = x @ w[-1]["weight"] + w[-1]["bias"]
            return optax.losses.softmax_cross_entropy_with_integer_labels(logits, rows["label"][index]).mean()

        def step(w, key):
            return optax.tree.add_scale(w, -RATE, jax.grad(loss)(w, key)), None

        w, _ = jax.lax.scan(step, w, jax.random.split(key, STEPS))
        return optax.tree.sub(received, w)

    local = jax.jit(local, compiler_options=COMPILER_OPTIONS)
    w, train = problem.init(jax.random.key(5)), problem.clients.train
    for number in range(ROUNDS):
        turns = [jax.random.fold_in(training_key(5), number * CLIENTS + i) for i in range(CLIENTS)]
        w = average(w, [local(w, train.starts[i], train.sizes[i], turns[i]) for i in range(CLIENTS)])
    for left, right in zip(jax.tree.leaves(end.params), jax.tree.leaves(w), strict=True):
        assert np.array_equal(left, right)
