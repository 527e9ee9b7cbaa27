"""Pages in a real browser: no errors, every figure drawn, and what a reader does with them works."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from idiolect.report.page import Picture, Section, page
from tests.browser.conftest import FAMILIES, IN_A_BROWSER

pytestmark = IN_A_BROWSER

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESK = {"viewport": {"width": 1200, "height": 900}}
PATIENCE = 60_000  # milliseconds; of a busy machine, too, as no test is about time
TRACES = ".scatterlayer .trace, .barlayer .trace, .boxlayer .trace"
DRAWN = f"""plots => plots.map(plot => [
    plot.dataset.drawn, plot.querySelectorAll('{TRACES}').length, plot.querySelector('.main-svg')?.clientHeight
])"""


@contextmanager
def opened(browser: Any, path: Path, **context: Any) -> Iterator[Any]:
    """The page in a window of its own; at the end, nothing went wrong in it, and nothing was asked of a network."""
    window = browser.new_context(**{**DESK, **context})
    window.set_default_timeout(PATIENCE)
    tab = window.new_page()
    wrong: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda request: None if request.url == path.as_uri() else wrong.append(request.url))
    try:
        tab.goto(path.as_uri())
        show(tab, tab.query_selector(".plot"))  # on a phone, tables come first
        yield tab
        assert [line for line in wrong if not line.startswith(("blob:", "data:"))] == []
    finally:
        window.close()


def show(tab: Any, plot: Any) -> None:
    """Scroll to a figure and wait until it is drawn, by the clock: the browser may hold back frames meanwhile."""
    plot.evaluate("plot => plot.scrollIntoView({behavior: 'instant'})")
    tab.wait_for_function("plot => plot.dataset.drawn", arg=plot, polling=50)


def draw_all(tab: Any) -> None:
    for plot in tab.query_selector_all(".plot"):
        show(tab, plot)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_figure_is_drawn_on_a_desk_and_on_a_phone(chromium, pages, family, record_property):
    for context in (DESK, PHONE):
        with opened(chromium, pages[family], **context) as tab:
            seconds = tab.evaluate("performance.now()") / 1000
            record_property("seconds to the first figure", seconds)
            print(f"{family}, {context['viewport']['width']} wide: first figure after {seconds:.2f} s")
            draw_all(tab)
            figures = tab.eval_on_selector_all(".plot", DRAWN)
            assert len(figures) >= 5
            assert all(int(traces) > 0 and shown > 0 and height > 100 for traces, shown, height in figures)
            wide, inside = tab.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
            assert wide <= inside
            captions = tab.eval_on_selector_all("figcaption", "all => all.map(one => one.textContent.length)")
            assert len(captions) == len(figures)
            assert min(captions) > 40


def first_range(tab: Any) -> list[float]:
    return tab.evaluate("document.querySelector('.plot').layout.xaxis.range.slice()")


def test_a_drag_zooms_and_two_clicks_go_back(chromium, pages):
    with opened(chromium, pages["demo"]) as tab:
        tab.eval_on_selector(".plot", "plot => plot.scrollIntoView({block: 'center', behavior: 'instant'})")
        box = tab.query_selector(".plot .nsewdrag").bounding_box()
        before = first_range(tab)
        middle = box["y"] + box["height"] / 2
        tab.mouse.move(box["x"] + 0.3 * box["width"], middle)
        tab.mouse.down()
        tab.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=5)
        tab.mouse.up()
        tab.wait_for_function("old => document.querySelector('.plot').layout.xaxis.range[1] < old", arg=before[1])
        zoomed = first_range(tab)
        span = before[1] - before[0]
        assert zoomed == pytest.approx([before[0] + 0.3 * span, before[0] + 0.6 * span], abs=0.02 * span)
        tab.mouse.dblclick(box["x"] + box["width"] / 2, middle)
        tab.wait_for_function("old => document.querySelector('.plot').layout.xaxis.range[1] >= old", arg=before[1])
        assert first_range(tab) == pytest.approx(before)


def test_a_click_in_the_legend_hides_a_curve_and_its_band(chromium, pages):
    with opened(chromium, pages["demo"]) as tab:
        tab.eval_on_selector(".plot", "plot => plot.scrollIntoView({block: 'center', behavior: 'instant'})")
        tab.locator(".plot").first.locator(".legendtoggle").first.click()
        hidden = "document.querySelector('.plot').data.filter(trace => trace.visible === 'legendonly').length"
        tab.wait_for_function(f"() => {hidden} === 2")
        names = tab.evaluate(
            "document.querySelector('.plot').data.filter(t => t.visible === 'legendonly').map(t => t.legendgroup)"
        )
        assert names == ["fedavg", "fedavg"]


def test_the_switch_goes_from_time_to_updates_to_seconds(chromium, pages):
    with opened(chromium, pages["demo"]) as tab:
        ends = {}
        for name in ("updates", "seconds of work", "virtual time"):
            tab.locator("figure").first.locator(".switch label", has_text=name).click()
            tab.wait_for_function(f"() => document.querySelector('.plot').layout.xaxis.title.text === '{name}'")
            ends[name] = tab.evaluate("document.querySelector('.plot').data.map(trace => Math.max(...trace.x))")
        assert ends["virtual time"] == [30] * 6
        assert ends["updates"] != ends["virtual time"] != ends["seconds of work"]


def test_the_dark_changes_the_page_and_its_figures_and_keeps_the_view(chromium, pages):
    ink = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    line = "getComputedStyle([...document.querySelectorAll('.plot .js-line')].at(-1)).stroke"
    with opened(chromium, pages["demo"], color_scheme="light") as tab:
        tab.locator("figure").first.locator(".switch label", has_text="updates").click()
        light = [tab.evaluate(what) for what in ("getComputedStyle(document.body).backgroundColor", ink, line)]
        tab.emulate_media(color_scheme="dark")
        tab.wait_for_function(f"() => {ink} !== '{light[1]}'")
        dark = [tab.evaluate(what) for what in ("getComputedStyle(document.body).backgroundColor", ink, line)]
        assert all(before != after for before, after in zip(light, dark, strict=True))
        assert tab.evaluate("document.querySelector('.plot').layout.xaxis.title.text") == "updates"


def test_paper_gets_every_figure_in_the_light_and_the_screen_its_own_again(chromium, pages):
    with opened(chromium, pages["demo"], color_scheme="dark") as tab:
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        tab.evaluate("addEventListener('afterprint', () => { window.printed = true; })")
        document = tab.pdf()
        assert document.startswith(b"%PDF")
        tab.wait_for_function("() => window.printed")
        assert tab.evaluate("document.querySelectorAll('.plot:not([data-drawn])').length") == 0
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        tab.emulate_media(media="print")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_names_that_are_scripts_do_not_run(chromium, tmp_path):
    evil = "<img src=x onerror='window.pwned=1'></script><script>window.pwned=1</script>"
    figure = go.Figure(go.Scatter(y=[1, 2], name=evil, showlegend=True, hovertext=evil)).update_layout(title=evil)
    path = tmp_path / "evil.html"
    path.write_text(page(evil, [Section(evil, pictures=[Picture(figure, evil)])]))
    with opened(chromium, path) as tab:
        draw_all(tab)
        assert tab.evaluate("window.pwned") is None


def saved(tab: Any, kind: str, tmp_path: Path) -> Path:
    """What the button of the page's first figure saves."""
    with tab.expect_download() as coming:
        tab.click(f"figure .save button:text-is('{kind}')")
    coming.value.save_as(tmp_path / coming.value.suggested_filename)
    return tmp_path / coming.value.suggested_filename


def test_a_figure_is_saved_as_a_picture_and_as_a_table(chromium, tmp_path):
    figure = go.Figure(layout={"title": 'Loss, "in all"', "height": 300})
    figure.add_scatter(x=[0, 1, 2], y=[3.0, None, 1.25], name='one, "two"')
    figure.add_scatter(x=[0, 1], y=[9.0, 9.0], name="hidden", visible=False)
    figure.add_heatmap(x=["a", "b"], y=[5, 6], z=[[1, 2], [3, 4]], name="map", xaxis="x2", yaxis="y2")
    figure.update_layout(xaxis={"domain": [0, 0.5]}, xaxis2={"domain": [0.6, 1]}, yaxis2={"anchor": "x2"})
    (tmp_path / "one.html").write_text(page("one", [Section("Figures", "", [Picture(figure, "A line and a map.")])]))
    with opened(chromium, tmp_path / "one.html", accept_downloads=True) as tab:
        table = saved(tab, "CSV", tmp_path)
        assert table.name == "loss-in-all.csv"
        assert list(csv.reader(table.read_text().splitlines())) == [
            ["trace", "x", "y", "value"],
            *[['one, "two"', x, y] for x, y in (("0", "3"), ("1", ""), ("2", "1.25"))],
            *[["map", x, y, z] for x, y, z in (("a", "5", "1"), ("b", "5", "2"), ("a", "6", "3"), ("b", "6", "4"))],
        ]
        drawing = saved(tab, "SVG", tmp_path).read_text()
        assert drawing.startswith("<svg")
        assert 'Loss, "in all"' in drawing
        assert "scatterlayer" in drawing
        picture = saved(tab, "PNG", tmp_path).read_bytes()
        assert picture.startswith(b"\x89PNG")
        wide, high = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
        assert wide >= 1400
        assert high == 660


def test_on_a_phone_the_result_comes_first_and_long_lists_are_folded(chromium, pages):
    with opened(chromium, pages["demo"], **PHONE) as tab:
        assert tab.eval_on_selector_all("h2", "all => all.slice(0, 2).map(one => one.textContent)") == [
            "In short",
            "What ran",
        ]
        top = tab.eval_on_selector("table", "table => table.getBoundingClientRect().top + scrollY")
        assert top < PHONE["viewport"]["height"]
        assert tab.eval_on_selector_all("#part-0 > ul > li", "all => all.length") <= 3


@pytest.mark.parametrize("family", FAMILIES)
def test_a_page_is_smaller_than_two_megabytes(pages, family):
    assert pages[family].stat().st_size < 2_000_000
