"""A relay of UDP between peers on this machine that loses datagrams at random while a file is there.

    python lossy_relay.py LOSS SEED FILE PORT:TARGET...

What is sent to a port is passed on to its target, and what that answers comes back; each way may lose it. Nothing
below sends anything again, so what is lost here is lost for good.
"""

import random
import select
import socket
import sys
from pathlib import Path

Address = tuple[str, int]
_HOST = "127.0.0.1"


def udp(port: int = 0) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((_HOST, port))
    return made


def main(loss: float, seed: int, file: Path, ways: list[str]) -> None:
    chance, targets = random.Random(seed), dict[socket.socket, int]()
    for way in ways:
        port, _, target = way.partition(":")
        targets[udp(int(port))] = int(target)
    onward: dict[tuple[socket.socket, Address], socket.socket] = {}  # one for each who sends to a port
    back: dict[socket.socket, tuple[socket.socket, Address]] = {}
    print("plugged in", flush=True)
    while True:
        for one in select.select([*targets, *back], [], [])[0]:
            datagram, sender = one.recvfrom(65536)
            if file.exists() and chance.random() < loss:
                continue
            if one in back:
                door, whom = back[one]
                door.sendto(datagram, whom)
                continue
            if (one, sender) not in onward:
                onward[one, sender] = made = udp()
                back[made] = (one, sender)
            onward[one, sender].sendto(datagram, (_HOST, targets[one]))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
