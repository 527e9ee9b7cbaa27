"""Protocols, how finished work is combined. Nothing here knows of a loss, of data or of a derivative."""

from idiolect.protocols.alone import local
from idiolect.protocols.asynchronous_server import asynchronous
from idiolect.protocols.buffered_server import buffered
from idiolect.protocols.control_variates import scaffold
from idiolect.protocols.gossip_averaging import gossip
from idiolect.protocols.model_mixing import mixing
from idiolect.protocols.push_sums import push_sum
from idiolect.protocols.running_sums import running_sum
from idiolect.protocols.synchronous_server import synchronous

__all__ = [
    "asynchronous",
    "buffered",
    "gossip",
    "local",
    "mixing",
    "push_sum",
    "running_sum",
    "scaffold",
    "synchronous",
]
