"""The laws of this package for algorithms of one's own: one call, and a sentence that says which law is broken.

`check_objective`, `check_protocol` and `check_peer` need no test framework; in a test, calling one is all there is to
do. The package's own tests are made of the same laws.
"""

from idiolect.testing.comparing import Training
from idiolect.testing.objective_laws import check_objective
from idiolect.testing.peer_laws import check_peer
from idiolect.testing.protocol_laws import check_protocol

__all__ = ["Training", "check_objective", "check_peer", "check_protocol"]
