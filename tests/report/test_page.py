"""Pages: nothing in them but what was meant, and figures that can be read back."""

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import plotly.graph_objects as go
import pytest

from idiolect.report.choices import one_at_a_time
from idiolect.report.drawing import as_json, plain
from idiolect.report.headline import Rows
from idiolect.report.packed_texts import packed
from idiolect.report.page import Picture, Section, page
from idiolect.report.style import labelled, log_scale, style
from idiolect.report.tables import as_html, definitions
from tests.report.drawn import drawings, unpacked

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\""


class Tags(HTMLParser):
    """The tags of a page, as a browser finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def read(text: str) -> Tags:
    tags = Tags()
    tags.feed(re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL))  # plotly, and ours
    return tags


def figure(name: str = "one") -> go.Figure:
    drawn = go.Figure(go.Scatter(x=np.array([0.0, 1.0]), y=[1 / 3, math.nan], name=name, line=style(6)))
    return labelled(drawn, name, "x", "y")


def test_what_is_named_by_somebody_else_stays_text():
    picture = Picture(figure(EVIL), EVIL, one_at_a_time(go.Figure([{}, {}]), [EVIL, "b"]))
    html = as_html(Rows([EVIL], [[EVIL]]), EVIL) + definitions({EVIL: EVIL})
    text = page(EVIL, [Section(EVIL, html, [picture])])
    tags = read(text).tags
    assert [name for name, _ in tags].count("img") == 0
    assert {attributes.get("type") for name, attributes in tags if name == "script"} == {
        "application/json",
        "text/plain",
    }
    (drawing,) = drawings(text)
    assert drawing["data"][0]["name"] == EVIL


def test_nothing_is_fetched():
    text = page("title", [Section("part", pictures=[Picture(figure(), "caption")])])
    for _, attributes in read(text).tags:
        for name in ("src", "href", "srcset", "action"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "default-src 'none'" in text
    assert "@import" not in text.partition("<script>")[0]


def test_figures_are_plain_numbers_and_the_page_s_colours_without_a_template():
    (drawing,) = drawings(page("title", [Section("part", pictures=[Picture(figure(), "caption")])]))
    assert drawing["data"][0]["y"] == [0.33333, None]
    assert drawing["data"][0]["x"] == [0, 1]
    assert drawing["data"][0]["line"]["color"] == "var(--colour-7)"
    assert "template" not in drawing["layout"]
    assert "title" not in drawing["layout"], "it is a heading of the page"


def test_a_page_without_pictures_brings_no_script():
    assert "<script" not in page("title", [Section("part", "<p>words</p>")])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.arange(3), [0, 1, 2]),
        ({"a": np.float32(0.5), "b": (1, np.inf)}, {"a": 0.5, "b": [1, None]}),
        (123456.789, 123460),
        (-1.23456789e-9, -1.2346e-9),
        ("<b>", "<b>"),
        (True, True),
    ],
)
def test_plain_values(value, expected):
    assert plain(value) == expected
    assert json.loads(as_json(plain(value))) == expected
    assert "<" not in as_json(plain(value))


def test_one_view_at_a_time_and_what_belongs_to_all_in_each():
    drawn = go.Figure([go.Scatter(y=[k]) for k in range(4)])
    choices = one_at_a_time(drawn, ["", "a", "b", "a"], first="b")
    assert [trace.visible for trace in drawn.data] == [True, False, True, False]
    assert {choice.name: choice.data["visible"] for choice in choices} == {
        "b": [True, False, True, False],
        "a": [True, True, False, True],
    }
    assert choices[0].name == "b"


def test_a_packed_script_comes_out_as_it_went_in():
    for text in ("", "a", "let x = '</script>' + \"ä\";" * 100, *("b" * k for k in range(2, 9))):
        told = packed(text)
        assert not set(told) & set("<>&'\"\\")
        assert unpacked(told) == text


@pytest.mark.parametrize(("values", "digits"), [([0.4, 2.2], "D2"), ([1e-7, 1.0], None), ([0.0], None)])
def test_digits_between_few_powers_of_ten_do_not_cover_each_other(values, digits):
    drawn = go.Figure()
    log_scale(drawn, values)
    assert drawn.layout.yaxis.dtick == digits
