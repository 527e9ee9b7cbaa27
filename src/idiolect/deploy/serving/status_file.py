"""The status of a server, for an operator."""

import json
from collections.abc import Mapping
from pathlib import Path

from idiolect.deploy.assignment import Assignment
from idiolect.deploy.serving.real_rounds import round_status
from idiolect.deploy.serving.reception import Reception
from idiolect.files import write_atomically


def write_status(path: Path, work: Assignment, reception: Reception, listens: str, heard: Mapping[str, float]) -> None:
    """Write who takes part, when each was heard last, and what has come."""
    desk = reception.desk
    devices = {
        name: {**member._asdict(), "past": len(member.past), "heard": heard.get(name)}
        for name, member in desk.members.items()
    }
    status = {
        **work.about(),
        "listens": listens,
        "updates": desk.updates,
        "turns": len(desk.recorder.client),
        "seconds": desk.time,
        **round_status(desk),
        "devices": devices,
        "refusals": desk.refusals,
        "turned_away": reception.turned_away,
    }
    write_atomically(path, (json.dumps(status, indent=1) + "\n").encode())
