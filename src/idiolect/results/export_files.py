"""What exported models took and gave when they were run, kept beside the run that they come from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from idiolect.errors import UserMistake
from idiolect.files import make_folder, write_atomically
from idiolect.results.folder import RunFolder
from idiolect.results.seals import sealed, unsealed


class Measured(NamedTuple):
    """One file of one client: what it takes on disk and in memory, milliseconds for an image, accuracy on test rows."""

    client: int
    form: str
    disk: int
    resident: int | None  # None where the system does not tell
    milliseconds: float
    accuracy: float | None  # None without test rows


def note_exports(folder: RunFolder, label: str, seed: int, measured: Sequence[Measured]) -> None:
    """Keep what was measured last; of a client and a form that were measured before, the new numbers count."""
    known = {(one.client, one.form): one for one in [*read_exports(folder, label, seed), *measured]}
    rows = [one._asdict() for _, one in sorted(known.items())]
    path, owner = folder.path / "exports" / f"{label}-seed{seed}.json", folder.owner("export", label, seed)
    try:
        make_folder(path.parent)
    except OSError as reason:
        raise UserMistake(f"{path.parent} cannot be made: {reason.strerror or reason}") from None
    write_atomically(path, sealed({"measured": rows}, owner))


def read_exports(folder: RunFolder, label: str, seed: int) -> list[Measured]:
    """What was measured of a cell's models; nothing if none was exported."""
    path = folder.path / "exports" / f"{label}-seed{seed}.json"
    if not path.exists():
        return []
    try:
        return unsealed(path, folder.owner("export", label, seed), _rows)
    except UserMistake as mistake:
        raise UserMistake(f"{mistake}; remove it, and export again") from None


def _rows(record: dict[str, Any]) -> list[Measured]:
    return [_row(**row) for row in record["measured"]]


def _row(
    client: int, form: str, disk: int, resident: int | None, milliseconds: float, accuracy: float | None
) -> Measured:
    memory = None if resident is None else int(resident)
    known = None if accuracy is None else float(accuracy)
    return Measured(int(client), str(form), int(disk), memory, float(milliseconds), known)
