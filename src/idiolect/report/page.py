"""One HTML page that needs no network to open: sections of text and pictures, each picture with a caption.

The page brings plotly and the data of figures along, packed. Figures are drawn when they come near the window, and all
of them before printing; their colours are the page's own (`idiolect.report.style`), so they follow it from light to
dark and onto paper. Each can be saved as a picture, and what it shows as a table.
"""

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, NamedTuple

import plotly.graph_objects as go

from idiolect.report.choices import Choice
from idiolect.report.drawing import as_json, plain
from idiolect.report.packed_texts import ALPHABET, packed, packed_plotly
from idiolect.report.style import TEMPLATE

_FILES = resources.files("idiolect.report")
_NOTHING_FROM_OUTSIDE = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
_SCRIPTS = ("painting.js", "saving.js", "page.js")
_HEIGHT = 430  # of a figure that does not say
_SAVE = "<p class=save>Save <button>SVG</button><button>PNG</button><button>CSV</button></p>"


class Picture(NamedTuple):
    """A figure, what to see in it, and the views of it that a reader can choose from, the first of which is shown."""

    figure: go.Figure
    caption: str
    choices: Sequence[Choice] = ()


class Section(NamedTuple):
    """A part of a page: a heading (none if empty), HTML under it, and pictures."""

    title: str
    html: str = ""
    pictures: Sequence[Picture] = ()


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page; titles, captions and figures' titles are plain text, `html` is taken as it is."""
    named = [(f"part-{number}", section) for number, section in enumerate(sections)]
    links = "".join(f"<a href='#{name}'>{escape(s.title)}</a>" for name, s in named if s.title)
    drawings = {f"{name}-{number}": _drawing(picture) for name, s in named for number, picture in enumerate(s.pictures)}
    body = "".join(_section(name, section, drawings) for name, section in named)
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        f'<meta http-equiv=Content-Security-Policy content="{_NOTHING_FROM_OUTSIDE}">'
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        "<meta name=color-scheme content='light dark'>"
        f"<title>{escape(title)}</title><style>{_FILES.joinpath('page.css').read_text('utf-8')}</style></head>"
        f"<body><header><h1>{escape(title)}</h1>{f'<nav>{links}</nav>' if links else ''}</header>"
        f"<main>{body}</main>{_scripts(drawings) if drawings else ''}</body></html>\n"
    )


def _drawing(picture: Picture) -> dict[str, Any]:
    """What a script draws of a picture: plain data, and a layout whose title the page tells."""
    drawn = plain(picture.figure.to_plotly_json())
    layout = drawn["layout"]
    for told in ("template", "title"):
        layout.pop(told, None)
    layout.setdefault("height", _HEIGHT)
    return {"data": drawn["data"], "layout": layout, "choices": [plain(one._asdict()) for one in picture.choices]}


def _section(name: str, section: Section, drawings: Mapping[str, Any]) -> str:
    heading = f"<h2>{escape(section.title)}</h2>" if section.title else ""
    figures = {f"{name}-{number}": picture for number, picture in enumerate(section.pictures)}
    pictures = "".join(_figure(one, picture, drawings[one]["layout"]["height"]) for one, picture in figures.items())
    return f"<section id={name}>{heading}{section.html}{pictures}</section>"


def _figure(name: str, picture: Picture, height: float) -> str:
    """Where a figure is drawn: its title and caption as HTML, which folds on a narrow window as plotly's would not."""
    title = picture.figure.layout.title.text or ""
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return (
        f"<figure id={name}>{heading}{_switch(name, picture.choices)}"
        f"<div class=plot role=group aria-label='{escape(title)}' style='height:{height}px'></div>"
        f"<figcaption>{escape(picture.caption)}</figcaption>{_SAVE}</figure>"
    )


def _switch(name: str, choices: Sequence[Choice]) -> str:
    if len(choices) < 2:
        return ""
    buttons = "".join(
        f"<label><input type=radio name={name} value={number}{'' if number else ' checked'}>"
        f"<span>{escape(choice.name)}</span></label>"
        for number, choice in enumerate(choices)
    )
    return f"<div class=switch role=radiogroup>{buttons}</div>"


def _scripts(drawings: Mapping[str, Any]) -> str:
    return (
        "<noscript><p>The figures are drawn by a script, which this browser does not run.</p></noscript>"
        f"<script type=application/json id=template>{as_json(TEMPLATE)}</script>"
        f"<script type=text/plain id=figures data-alphabet='{ALPHABET}'>{packed(as_json(drawings))}</script>"
        f"<script type=text/plain id=plotly data-alphabet='{ALPHABET}'>{packed_plotly()}</script>"
        f"<script>{''.join(_FILES.joinpath(name).read_text('utf-8') for name in _SCRIPTS)}</script>"
    )
