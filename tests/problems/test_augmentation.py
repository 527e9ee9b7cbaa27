"""Random crops and flips, against a plain loop; and that training sees them and scoring does not."""

import jax
import jax.numpy as jnp
import numpy as np

from idiolect import Choice
from idiolect.catalog import PROBLEMS
from idiolect.options import make
from idiolect.problems.augmentation import crop_and_flip

KEY = jax.random.key(3)


def test_every_image_is_one_of_its_shifts_perhaps_mirrored_and_all_of_them_come():
    image = np.arange(1, 26, dtype=np.float32).reshape(5, 5, 1)
    padded = np.pad(image, ((4, 4), (4, 4), (0, 0)))
    shifts = {}
    for row in range(9):
        for column in range(9):
            crop = padded[row : row + 5, column : column + 5]
            shifts[crop.tobytes()] = shifts[crop[:, ::-1].tobytes()] = (row, column)
    made = np.asarray(crop_and_flip(jnp.asarray(np.stack([image] * 4000)), KEY))
    found = [shifts[one.tobytes()] for one in made]
    assert len(set(found)) == 81
    middle = [one for one, place in zip(made, found, strict=True) if place == (4, 4)]
    mirrored = np.mean([(one == image[:, ::-1]).all() for one in middle])
    assert 0.25 < mirrored < 0.75


def test_training_sees_them_and_scoring_does_not():
    plain, moved = (
        make(PROBLEMS, "problem", Choice("digits", {"clients": 2, **more}), seed=0)
        for more in ({}, {"augmentation": "crop_flip"})
    )
    params, shard = plain.init(KEY), plain.clients.train.shard(0)
    losses = [float(p.oracle(shard, 8).value(params, KEY)) for p in (plain, moved)]
    assert losses[0] != losses[1]
    rows = jax.tree.map(lambda store: store[:16], shard.rows)
    assert float(plain.metric.score(params, rows)) == float(moved.metric.score(params, rows))
