"""How finished work is combined. Nothing here knows of a loss, of data or of a derivative."""

from idiolect.protocols.asynchronous import asynchronous
from idiolect.protocols.buffered import buffered
from idiolect.protocols.local import local
from idiolect.protocols.scaffold import scaffold
from idiolect.protocols.synchronous import synchronous

__all__ = ["asynchronous", "buffered", "local", "scaffold", "synchronous"]
