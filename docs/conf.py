"""The documentation site: `make docs` builds it into docs/_build/html, with every tutorial executed."""

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from myst_nb.core import render  # noqa: E402

import idiolect  # noqa: E402
from generators import algorithm_pages, api_pages, architecture, joined_outputs  # noqa: E402

project = "idiolect"
author = "the authors of idiolect"
copyright = "the authors of idiolect, Apache-2.0"  # noqa: A001
release = version = idiolect.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "generators"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
highlight_language = "text"
smartquotes = False  # options and defaults are code
default_role = "code"
toc_object_entries = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False

nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # of a cell, on a machine that does other things
nb_output_stderr = "remove"
nb_merge_streams = True
render.coalesce_streams = joined_outputs.joined
# The commands of tutorials are those of the environment that builds, and print plainly.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["BASH_ENV"] = str(HERE / "generators" / "plain_commands.sh")

html_theme = "furo"
html_title = "idiolect"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False

# Pages that report what was found; every other page beside this file is a how-to, also one that is added tomorrow.
REFERENCE = [
    "leaderboard",
    "reproduction",
    "results",
    "errata",
    "survival",
    "lies",
    "privacy",
    "speed",
    "stability",
    "mutation",
]


def _write_pages(app: Any, config: Any) -> None:
    """Pages that are made from the code. A file that is as it was is not touched, so that nothing is built again."""
    for folder, made in {
        "algorithms": algorithm_pages.pages(),
        "api": api_pages.pages(),
        "design": {"architecture.svg": architecture.picture()},
    }.items():
        (HERE / folder).mkdir(exist_ok=True)
        for name, text in made.items():
            path = HERE / folder / name
            if not path.exists() or path.read_text("utf-8") != text:
                path.write_text(text, "utf-8")


def _list_pages(app: Any, name: str, source: list[str]) -> None:
    beside = sorted(path.stem for path in HERE.glob("*.md"))
    others = [page for page in beside if page not in (*REFERENCE, "index", "installing")]
    source[0] = source[0].replace("@how-to@", "\n".join(others)).replace("@reference@", "\n".join(REFERENCE))


def _offer_files(app: Any, name: str, source: list[str]) -> None:
    """Notebooks of examples/ and pages that are whole by themselves are not of the site: a link offers the file."""
    source[0] = re.sub(r"\]\((\.\./examples/\w+\.ipynb|leaderboard\.html)\)", r"](<path:\1>)", source[0])


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("config-inited", _write_pages)
    app.connect("source-read", _list_pages)
    app.connect("source-read", _offer_files)
    app.connect("autodoc-process-docstring", api_pages.plain_docstring)
    app.connect("autodoc-skip-member", api_pages.without_fields)
