"""The turn that most protocols share: start from what the server offers, send back how far you descended.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithm 2, l. 3-4 and 14-15.
"""

import optax

from idiolect.contracts import Info, Key, Learner, Params, PyTree, Shard, Upload, Work


def send_difference(learner: Learner) -> Work:
    """A client that keeps nothing for the protocol between its turns, only what its objective calls its own."""

    def turn(own: PyTree, offer: Params, shard: Shard, key: Key) -> tuple[PyTree, Upload, Info]:
        own, reached, info = learner.descend(own, offer, None, shard, key)  # l. 3-13
        return own, Upload(optax.tree.sub(offer, reached), shard.size), info  # l. 14-15

    return Work(learner.begin, turn, model=lambda own, offer: offer, own=lambda own: own)
