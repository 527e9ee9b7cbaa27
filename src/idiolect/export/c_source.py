"""A model for firmware: its bundle as an array in C, beside the reader that computes from it."""

import re
from importlib.resources import files
from pathlib import Path

from idiolect.files import write_atomically

READER = ("idiolect.h", "idiolect.c")
_IN_A_LINE = 20


def write_c(path: Path, bundle: bytes) -> list[Path]:
    """Write `path` (*.c) with the bundle, its header, and the reader beside them; returns all four.

    The array is called as the file, and its size `..._size`: `idiolect_open(&model, phone, phone_size)`.
    """
    name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    name = name if not name[:1].isdigit() else f"_{name}"
    lines = ["    " + ",".join(map(str, bundle[k : k + _IN_A_LINE])) + "," for k in range(0, len(bundle), _IN_A_LINE)]
    header, guard = path.with_suffix(".h"), f"{name.upper()}_H"
    declared = f"extern const unsigned char {name}[];\nextern const size_t {name}_size;\n"
    write_atomically(
        header, f"#ifndef {guard}\n#define {guard}\n\n#include <stddef.h>\n\n{declared}\n#endif\n".encode()
    )
    defined = f"const unsigned char {name}[] = {{\n" + "\n".join(lines) + "\n};\n"
    size = f"const size_t {name}_size = sizeof {name};\n"
    write_atomically(path, f'#include "{header.name}"\n\n{defined}{size}'.encode())
    for part in READER:
        write_atomically(path.with_name(part), reader_source(part))
    return [path, header, *(path.with_name(part) for part in READER)]


def reader_source(name: str) -> bytes:
    """A file of the reader in C."""
    return (files("idiolect.device") / "c" / name).read_bytes()
