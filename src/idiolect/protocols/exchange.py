"""The turn that most protocols share: start from what the server offers, send back how far you descended.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithm 2, l. 3-4 and 14-15.
"""

import optax

from idiolect.contracts import Info, Key, Learner, Params, PyTree, Shard, Upload, Work


def send_difference(learner: Learner) -> Work:
    """A client without memory: nothing stays on it between its turns."""

    def init(params: Params) -> PyTree:
        return ()

    def turn(personal: PyTree, offer: Params, shard: Shard, key: Key) -> tuple[PyTree, Upload, Info]:
        reached, info = learner.descend(offer, None, shard, key)  # l. 3-13
        return personal, Upload(optax.tree.sub(offer, reached), shard.size), info  # l. 14-15

    def model(personal: PyTree, offer: Params) -> Params:
        return offer

    return Work(init, turn, model)
