"""README and tutorials, walked by somebody who has nothing but the wheel: `make walk`.

Builds the wheel, installs it with pip into a fresh environment, and runs every Python block and every command of README
and of the tutorials there, each page in an empty folder and nothing of the sources in sight. Takes minutes.
"""

import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from tests.pages import ROOT, TUTORIALS, run_in, script

EXTRAS = "onnx,zenoh"  # what the tutorials name beside a plain installation


def main() -> int:
    """Walk, and say how every page ended."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        python = _installed(Path(folder))
        for name, text in {**_readme(), **{page.stem: script(page) for page in TUTORIALS}}.items():
            empty = Path(folder) / "walk" / name
            empty.mkdir(parents=True)
            began = time.monotonic()
            done = run_in(empty, text, str(python))
            ended = "FAILED" if done.returncode else "fine"
            print(f"{name}: {ended}, {time.monotonic() - began:.0f} s", flush=True)
            if done.returncode:
                failed.append(name)
                print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
    return 1 if failed else 0


def _installed(folder: Path) -> Path:
    """The Python of a fresh environment that has the wheel, with pip."""
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", ROOT], check=True)
    venv.create(folder / "fresh", with_pip=True)
    python = folder / "fresh" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    (wheel,) = (folder / "dist").glob("*.whl")
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[{EXTRAS}]"], check=True)
    where = run_in(folder, "import idiolect; print(idiolect.__file__)", str(python)).stdout
    if not where.startswith(str(folder)):
        raise SystemExit(f"the walk would use {where.strip()}, and not the wheel")
    return python


def _readme() -> dict[str, str]:
    """README's Python, what `make demo` runs, and the commands after `pip install`."""
    page = ROOT / "README.md"
    commands = [
        line
        for block in re.findall(r"^```\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if line.startswith("idiolect ")
    ]
    if not commands:
        raise SystemExit("README has no command that begins with idiolect")
    walked = "\n".join(["idiolect --version", "idiolect run demo", *commands])
    asked = f"import subprocess; subprocess.run(['bash', '-euo', 'pipefail', '-c', {walked!r}], check=True)"
    return {"readme-python": script(page), "readme-commands": asked}


if __name__ == "__main__":
    raise SystemExit(main())
