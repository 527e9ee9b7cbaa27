"""A cable between two network namespaces that loses packets at random, and can be cut: two TUN devices and a loop.

    python lossy_cable.py NAMESPACE NAMESPACE LOSS SEED CUT

While the file CUT exists, nothing passes. Below it are real kernels' TCP stacks; they see nothing but loss.
"""

import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
from pathlib import Path

DEVICE, ADDRESSES = "cable0", ("10.77.0.1", "10.77.0.2")
_SETIFF, _TUN, _BARE, _NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000


def enter(namespace: str) -> None:
    """Move this thread, and those that it starts, to a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(handle, _NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)


def end_in(namespace: str, address: str) -> int:
    """One end of the cable, plugged into a namespace."""
    enter(namespace)
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, _SETIFF, struct.pack("16sH", DEVICE.encode(), _TUN | _BARE))
    for command in (f"addr add {address}/24 dev {DEVICE}", f"link set {DEVICE} up", "link set lo up"):
        subprocess.run(["ip", *command.split()], check=True)
    return end


def main(one: str, other: str, loss: float, seed: int, cut: Path) -> None:
    ends = [end_in(space, address) for space, address in zip((one, other), ADDRESSES, strict=True)]
    across, chance = dict(zip(ends, ends[::-1], strict=True)), random.Random(seed)
    print("plugged in", flush=True)
    while True:
        for end in select.select(ends, [], [])[0]:
            packet = os.read(end, 65536)
            if chance.random() >= loss and not cut.exists():
                os.write(across[end], packet)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
