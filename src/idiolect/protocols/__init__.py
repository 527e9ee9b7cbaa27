"""How finished work is combined. Nothing here knows of a loss, of data or of a derivative."""

from idiolect.protocols.asynchronous import asynchronous
from idiolect.protocols.buffered import buffered
from idiolect.protocols.gossip import gossip
from idiolect.protocols.local import local
from idiolect.protocols.push_sum import push_sum
from idiolect.protocols.running_sum import running_sum
from idiolect.protocols.scaffold import scaffold
from idiolect.protocols.synchronous import synchronous

__all__ = [
    "asynchronous",
    "buffered",
    "gossip",
    "local",
    "push_sum",
    "running_sum",
    "scaffold",
    "synchronous",
]
