"""The most memory that this process has had, where the system tells."""

import sys


def peak_bytes() -> int | None:
    """In bytes; None where there is no module `resource`, as on Windows."""
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most if sys.platform == "darwin" else most * 1024)
