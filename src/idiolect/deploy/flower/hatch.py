"""The hatch: where couriers of one machine reach the process that has its data. Loopback, and a secret in a file.

Both sides prove that they know the secret before anything else is said, each by an HMAC of what the other has made
up; so neither a stranger on this machine is let in, nor is a letter given to one. The file is in a folder that only
its owner can read, and is made anew each time the hatch opens. No JAX here: a courier must start fast.
"""

import hmac
import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from idiolect.errors import UserMistake
from idiolect.files import read_whole, write_atomically

HATCH = "hatch.json"  # in the folder that a device keeps
LETTER_BYTES = 2**31  # longer ones are not taken
_NONCE, _PROOF = 32, 32  # bytes
_HANDSHAKE = 10.0  # seconds in which a courier must have proven itself
_AT_ONCE = 8  # couriers
_PARTING = 5.0  # seconds in which couriers get what was said last


class Hatch:
    """An open hatch: `deliver` is given each letter, on a thread of its courier's, and returns what it takes back."""

    def __init__(self, folder: Path, deliver: Callable[[bytes], bytes]) -> None:
        self._deliver, self._secret = deliver, os.urandom(32)
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._couriers: list[threading.Thread] = []
        told = {"port": self._listening.getsockname()[1], "secret": self._secret.hex()}
        write_atomically(folder / HATCH, json.dumps(told).encode())
        self._file = folder / HATCH
        threading.Thread(target=self._let_in, daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more; those who are inside get their answers."""
        self._file.unlink(missing_ok=True)
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for courier in self._couriers:
            courier.join(_PARTING)

    def _let_in(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return  # it was closed
            if not self._room.acquire(blocking=False):
                connection.close()
                continue
            self._couriers = [one for one in self._couriers if one.is_alive()]
            self._couriers.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._couriers[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, EOFError):
                connection.settimeout(_HANDSHAKE)
                nonce = os.urandom(_NONCE)
                connection.sendall(nonce)
                theirs = _receive(connection, _NONCE + _PROOF)
                said = nonce + theirs[:_NONCE]
                if not hmac.compare_digest(theirs[_NONCE:], _proof(self._secret, b"courier", said)):
                    return
                connection.sendall(_proof(self._secret, b"resident", said))
                letter = _receive_letter(connection)
                connection.settimeout(None)
                _send_letter(connection, self._deliver(letter))
        finally:
            self._room.release()


def pass_through(folder: Path, letter: bytes, seconds: float) -> bytes:
    """Bring a letter to the hatch of a folder, and wait so long for what comes back."""
    port, secret = _read(folder / HATCH)
    try:
        with socket.create_connection(("127.0.0.1", port), _HANDSHAKE) as connection:
            said = _receive(connection, _NONCE) + os.urandom(_NONCE)
            connection.sendall(said[_NONCE:] + _proof(secret, b"courier", said))
            if not hmac.compare_digest(_receive(connection, _PROOF), _proof(secret, b"resident", said)):
                raise UserMistake(f"whoever listens where {folder / HATCH} says is not the device; start it anew")
            _send_letter(connection, letter)
            connection.settimeout(seconds)
            return _receive_letter(connection)
    except (OSError, EOFError) as reason:
        raise UserMistake(f"the device of {folder} does not answer: {reason}") from None


def _read(path: Path) -> tuple[int, bytes]:
    if not path.exists():
        raise UserMistake(f"there is no {path}: nobody is at home; start it by: idiolect join flower")
    try:
        told = json.loads(read_whole(path, "hatch"))
        return int(told["port"]), bytes.fromhex(told["secret"])
    except (ValueError, TypeError, KeyError):
        raise UserMistake(f"hatch {path} is damaged; start the device anew") from None


def _proof(secret: bytes, who: bytes, said: bytes) -> bytes:
    return hmac.digest(secret, who + said, "sha256")


def _send_letter(connection: socket.socket, letter: bytes) -> None:
    connection.sendall(len(letter).to_bytes(8, "big"))
    connection.sendall(letter)


def _receive_letter(connection: socket.socket) -> bytes:
    length = int.from_bytes(_receive(connection, 8), "big")
    if length > LETTER_BYTES:
        raise EOFError("a letter that is too long")
    return _receive(connection, length)


def _receive(connection: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        part = connection.recv(min(length - len(found), 2**20))
        if not part:
            raise EOFError("it has hung up")
        found += part
    return bytes(found)
