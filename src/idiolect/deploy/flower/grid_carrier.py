"""Letters by Flower's grid."""

from collections.abc import Iterable, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from idiolect.deploy.flower.flower_records import as_records, letter_in
from idiolect.deploy.flower.post_office import Reply
from idiolect.errors import UserMistake


class GridCarrier:
    """Sends each letter by itself, so that one that cannot be sent keeps back no other."""

    def __init__(self, grid: Grid, seconds: float) -> None:
        self._grid, self._seconds = grid, seconds

    def nodes(self) -> Iterable[int]:
        """The SuperNodes that are connected."""
        return self._grid.get_node_ids()

    def push(self, node: int, letter: bytes) -> str | None:
        """Send a letter to a node; it is given up if nothing has come back within the carrier's seconds."""
        message = Message(as_records(letter), node, "train", ttl=self._seconds)
        return next(iter(self._grid.push_messages([message])), None)

    def pull(self, sent: Sequence[str]) -> Iterable[Reply]:
        """What has come back; never waits."""
        return [_read(message) for message in self._grid.pull_messages(sent)] if sent else []


def _read(message: Message) -> Reply:
    to = message.metadata.reply_to_message_id
    if message.has_error():
        return Reply(to, b"", f"Flower's error {message.error.code}, {message.error.reason}")
    try:
        return Reply(to, letter_in(message.content))
    except UserMistake as mistake:
        return Reply(to, b"", str(mistake))
