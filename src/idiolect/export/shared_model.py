"""The model that clients share, as a run's server held it at the end: for whoever has no data to adapt it on."""

import jax
import numpy as np

from idiolect.contracts import Compressed, uncompressed
from idiolect.errors import UserMistake
from idiolect.results.client_models import CellModels


def shared_model(models: CellModels, *, shares: bool) -> Compressed:
    """The shared model of a cell, or one sentence on why there is none to be used alone."""
    if not shares:
        raise UserMistake(f"--shared is for models that clients share, but {models.label} shares none; take --client")
    shared, problem = models.snapshot.params, models.problem
    whole = jax.eval_shape(problem.init, jax.random.key(0))
    if str(jax.tree.structure(shared)) != str(jax.tree.structure(whole)):
        raise UserMistake(f"--shared is for whole models, but clients of {models.label} keep a part; take --client")
    measured = problem.calibrate(shared, problem.clients.adapt.shard(problem.clients.participating[0]))
    pairs = zip(jax.tree.leaves(shared), jax.tree.leaves(measured), strict=True)
    if not all(np.array_equal(mine, theirs) for mine, theirs in pairs):
        raise UserMistake("--shared is for whole models, but each client has statistics of its own; take --client")
    return uncompressed(shared)
