"""One HTML page that needs no network to open: sections of text and pictures, each picture with a caption."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import plotly.graph_objects as go

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:auto;padding:1rem}figure{margin:0 0 2.5rem}"
    "figcaption{color:#555;font-size:.9rem}"
)


class Picture(NamedTuple):
    """A figure, and what to see in it."""

    figure: go.Figure
    caption: str


class Section(NamedTuple):
    """A part of a page: a heading (none if empty), HTML under it, and pictures."""

    title: str
    html: str = ""
    pictures: Sequence[Picture] = ()


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page; titles and captions are plain text, `html` is taken as it is."""
    body, script = "", True
    for section in sections:
        body += f"<h2>{escape(section.title)}</h2>" if section.title else ""
        body += section.html
        for figure, caption in section.pictures:
            body += f"<figure>{_render(figure, script)}<figcaption>{escape(caption)}</figcaption></figure>"
            script = False
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>{body}</html>\n"
    )


def _render(figure: go.Figure, script: bool) -> str:
    """The figure as HTML; the first on the page brings the script along."""
    html: str = figure.to_html(
        full_html=False, include_plotlyjs=script, config={"responsive": True, "displaylogo": False}
    )
    return html
