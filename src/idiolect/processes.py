"""Whether a process that was written down is still there, and not another that got its number."""

import os


def began(pid: int) -> float:
    """When a process began, in ticks since the machine did; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return float(stat.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0


def lives(pid: int, since: float) -> bool | None:
    """Is the process still there that began then? None where the system does not say."""
    if os.path.exists("/proc/self/stat"):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                fields = stat.read().rpartition(")")[2].split()
            return fields[0] != "Z" and float(fields[19]) == since
        except (OSError, ValueError, IndexError):
            return False
    if os.name != "posix" or pid <= 0:  # elsewhere a signal of 0 is no question
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's, and there
        return True
    return True
