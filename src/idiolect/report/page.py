"""One HTML page that needs no network to open: sections of text and pictures, each picture with a caption.

The page brings plotly along, packed. Figures are drawn when they come near the window, and all of them before printing;
their colours are the page's own (`idiolect.report.style`), so they follow it from light to dark and onto paper. Each
can be saved as a picture, and what it shows as a table.
"""

from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import NamedTuple

import plotly.graph_objects as go

from idiolect.report.choices import Choice
from idiolect.report.drawing import as_json, plain
from idiolect.report.packing_scripts import ALPHABET, packed_plotly
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
    body = "".join(_section(name, section) for name, section in named)
    drawn = any(section.pictures for section in sections)
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        f'<meta http-equiv=Content-Security-Policy content="{_NOTHING_FROM_OUTSIDE}">'
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        "<meta name=color-scheme content='light dark'>"
        f"<title>{escape(title)}</title><style>{_FILES.joinpath('page.css').read_text('utf-8')}</style></head>"
        f"<body><header><h1>{escape(title)}</h1>{f'<nav>{links}</nav>' if links else ''}</header>"
        f"<main>{body}</main>{_scripts() if drawn else ''}</body></html>\n"
    )


def _section(name: str, section: Section) -> str:
    heading = f"<h2>{escape(section.title)}</h2>" if section.title else ""
    pictures = "".join(_figure(f"{name}-{number}", picture) for number, picture in enumerate(section.pictures))
    return f"<section id={name}>{heading}{section.html}{pictures}</section>"


def _figure(name: str, picture: Picture) -> str:
    """A figure to be drawn: its title and caption as HTML, which folds on a narrow window as plotly's would not."""
    drawing = plain(picture.figure.to_plotly_json())
    layout = drawing["layout"]
    layout.pop("template", None)
    title = layout.pop("title", {}).get("text", "")
    layout.setdefault("height", _HEIGHT)
    choices = [plain(choice._asdict()) for choice in picture.choices]
    text = as_json({"data": drawing["data"], "layout": layout, "choices": choices})
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return (
        f"<figure id={name}>{heading}{_switch(name, picture.choices)}"
        f"<div class=plot role=group aria-label='{escape(title)}' style='height:{layout['height']}px'></div>"
        f"<script type=application/json>{text}</script><figcaption>{escape(picture.caption)}</figcaption>"
        f"{_SAVE}</figure>"
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


def _scripts() -> str:
    return (
        "<noscript><p>The figures are drawn by a script, which this browser does not run.</p></noscript>"
        f"<script type=application/json id=template>{as_json(TEMPLATE)}</script>"
        f"<script type=text/plain id=plotly data-alphabet='{ALPHABET}'>{packed_plotly()}</script>"
        f"<script>{''.join(_FILES.joinpath(name).read_text('utf-8') for name in _SCRIPTS)}</script>"
    )
