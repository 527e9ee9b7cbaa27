"""Executes the notebooks of this folder and stores what they show: `make notebooks`.

Outputs that would differ from day to day, such as times and paths, are not stored.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(path: Path) -> None:
    """Run a notebook from its beginning, in a folder of its own, and write it back."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, record_timing=False, resources={"metadata": {"path": folder}}).execute()
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for given in sys.argv[1:] or sorted(map(str, Path(__file__).parent.glob("*.ipynb"))):
        execute(Path(given))
