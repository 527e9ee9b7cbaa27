"""Protocols, how finished work is combined. Nothing here knows of a loss, of data or of a derivative."""

from idiolect.protocols.alone import local
from idiolect.protocols.asynchronous_server import asynchronous
from idiolect.protocols.buffered_server import buffered
from idiolect.protocols.calibrated_buffer import calibrated
from idiolect.protocols.clustered_server import ifca
from idiolect.protocols.control_variates import scaffold
from idiolect.protocols.dynamic_regularization import feddyn
from idiolect.protocols.gossip_averaging import gossip
from idiolect.protocols.model_mixing import mixing
from idiolect.protocols.personal_mixture import l2gd
from idiolect.protocols.push_sums import push_sum
from idiolect.protocols.running_sums import running_sum
from idiolect.protocols.synchronous_server import synchronous

__all__ = [
    "asynchronous",
    "buffered",
    "calibrated",
    "feddyn",
    "gossip",
    "ifca",
    "l2gd",
    "local",
    "mixing",
    "push_sum",
    "running_sum",
    "scaffold",
    "synchronous",
]
