"""`idiolect new FILE`: a recipe to begin with, that runs as it is and says what each line does."""

import argparse
from importlib import resources
from pathlib import Path
from typing import Any

from idiolect.errors import UserMistake


def add(commands: Any) -> None:
    """Teach the command line `new`."""
    new = commands.add_parser("new", help="write a commented recipe to begin with")
    new.set_defaults(command=_new)
    new.add_argument("file", type=Path, metavar="FILE.toml", help="where to; a file that is there stays as it is")


def _new(options: argparse.Namespace) -> int:
    from idiolect.files import write_atomically

    file: Path = options.file
    if file.suffix != ".toml":
        raise UserMistake(f"FILE is {file}, but a recipe's name must end in .toml")
    if file.exists():
        raise UserMistake(f"{file} is there already and is not overwritten; name another file")
    if not file.parent.is_dir():
        raise UserMistake(f"{file} lies in a folder that does not exist")
    text = (resources.files("idiolect") / "recipes" / "new" / "commented.toml").read_text("utf-8")
    write_atomically(file, text.replace("FILE", str(file)).encode())
    print(f"Recipe: {file}   inspect it: idiolect inspect {file}   run it: idiolect run {file}")
    return 0
