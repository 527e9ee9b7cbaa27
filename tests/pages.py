"""What pages of README and docs can run, as scripts: their Python, and in tutorials their commands and files as well.

A tutorial is a notebook in Markdown. Its cells are Python, `%%bash` (commands) or `%%writefile NAME` (a file).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
CELL = re.compile(r"^```(?:python|\{code-cell\} ipython3)\n(?:---\n.*?---\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)


def script(page: Path) -> str:
    """The page as one Python program."""
    parts = [_part(cell) for cell in CELL.findall(page.read_text("utf-8"))]
    return "import subprocess, pathlib\n\n" + "\n".join(parts)


def _part(cell: str) -> str:
    first, _, rest = cell.partition("\n")
    if first == "%%bash":
        return f"subprocess.run(['bash', '-euo', 'pipefail', '-c', {rest!r}], check=True)\n"
    if first.startswith("%%writefile "):
        return f"pathlib.Path({first.split()[1]!r}).write_text({rest!r}, 'utf-8')\n"
    return cell


def run_in(folder: Path, text: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, with the commands of that Python's environment first, and nothing of the sources."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH" or python == sys.executable
    }
    environment["PATH"] = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    command = [python, "-c", text]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
