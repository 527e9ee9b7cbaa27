"""The ClientApp: a courier between Flower's node and the process of this machine that has the data.

Where that process is comes from the node's own configuration (`--node-config 'idiolect="DIR"'`), never from a message.
"""

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from idiolect.deploy.flower.flower_records import as_records, letter_in
from idiolect.deploy.flower.hatch import pass_through
from idiolect.errors import UserMistake, in_one_line

app = ClientApp()


def carry(message: Message, context: Context) -> Message:
    """Bring a letter to the device, and back what it asks; or say why it cannot be brought."""
    try:
        letter = pass_through(_folder(context), letter_in(message.content), message.metadata.ttl)
        return Message(as_records(letter), reply_to=message)
    except UserMistake as mistake:
        print(f"idiolect: {in_one_line(str(mistake))}")
        return Message(as_records(b"", str(mistake)), reply_to=message)


def _folder(context: Context) -> Path:
    found = context.node_config.get("idiolect")
    if not isinstance(found, str) or not found:
        raise UserMistake("this node has no device; start its SuperNode with --node-config 'idiolect=\"DIR\"'")
    return Path(found)


app.train()(carry)
