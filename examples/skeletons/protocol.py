"""A protocol of your own with a server: how finished work is combined. Replace `absorb` by your idea.

idiolect run demo --with examples/skeletons/protocol.py --set 'algorithms=[{name="moreau+cautious"}]'
"""

from typing import Annotated

import optax
from annotated_types import Gt

import idiolect
from idiolect.contracts import Params, Scalar, Schedule, Server, Upload
from idiolect.protocols.exchange import send_difference


@idiolect.protocol
def cautious(*, beta: Annotated[float, Gt(0)] = 1.0) -> idiolect.Protocol:
    """Move by `beta` / (1 + staleness) times each update as it arrives."""

    def absorb(state: Params, upload: Upload, staleness: Scalar) -> Params:
        return optax.tree.add_scale(state, -beta / (1 + staleness), upload.delta)

    server = Server(
        init=lambda params, clients: params,
        offer=lambda state: state,
        absorb=absorb,
        close=lambda state: state,  # a round is over; without rounds, this is never called
        read=lambda state: state,
    )
    return idiolect.Protocol(server, send_difference, Schedule(rounds=False))


if __name__ == "__main__":
    from idiolect.testing import check_protocol

    check_protocol(cautious())
