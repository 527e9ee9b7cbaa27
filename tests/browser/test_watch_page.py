"""The live page in a real browser: curves grow while the run does, and it says when the run, or the watch, is over."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import idiolect
from idiolect.watching import page_server, watcher
from tests.browser.conftest import IN_A_BROWSER
from tests.browser.test_pages import DESK, PATIENCE, PHONE

pytestmark = IN_A_BROWSER

MINE = idiolect.Experiment(
    idiolect.Choice("quadratics", {"clients": 4}),
    ["fedasync", "rasgp"],
    seeds=[0, 1],
    horizon=30.0,
    evaluation=idiolect.Evaluation(points=6),
)


@contextmanager
def served(look: Any) -> Iterator[str]:
    with page_server(look, port=0) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@contextmanager
def opened(browser: Any, address: str, wrong: list[str], **context: Any) -> Iterator[Any]:
    window = browser.new_context(**{**DESK, **context})
    window.set_default_timeout(PATIENCE)
    tab = window.new_page()
    tab.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda asked: None if asked.url.startswith((address, "data:")) else wrong.append(asked.url))
    try:
        tab.goto(address)
        yield tab
    finally:
        window.close()


def test_curves_grow_while_the_run_does_and_stay_when_the_watch_ends(chromium, tmp_path):
    out, wrong, longest = tmp_path / "run", list[str](), list[int]()
    points = "document.querySelector('.plot')?.data?.[0].x.length ?? 0"

    def hear(label: str, seed: int, point: Any) -> None:
        if (label, seed) == ("fedasync", 0):
            here = len(longest) + 1
            tab.wait_for_function(f"() => ({points}) === {here}")
            longest.append(here)
            assert tab.text_content("#state") == "under way"

    idiolect.run(MINE.replace(algorithms=["fedasync"], seeds=[7]), out=tmp_path / "other")  # compiles
    out.mkdir()
    looks = [lambda: watcher(tmp_path / "other")()]
    with served(lambda: looks[0]()) as address, opened(chromium, address, wrong) as tab:
        tab.wait_for_function("() => document.querySelector('#state').textContent === 'finished'")
        looks[0] = lambda: watcher(out)()
        idiolect.run(MINE, out=out, listen=hear)
        assert longest == list(range(1, 8))
        tab.reload()
        tab.wait_for_function("() => document.querySelectorAll('.plot[data-drawn]').length === 3")
        assert tab.text_content("#state") == "finished"
        assert tab.evaluate("document.querySelectorAll('table')[0].rows.length") == 5
        names = tab.eval_on_selector_all(".plot .legendtext", "all => all.map(one => one.textContent)")
        assert {"fedasync", "rasgp", "leaked"} <= set(names)
        ink = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
        light = tab.evaluate(ink)
        tab.emulate_media(color_scheme="dark")
        tab.wait_for_function(f"() => {ink} !== '{light}'")
        assert wrong == []
    with served(watcher(out)) as address, opened(chromium, address, wrong, **PHONE) as tab:
        tab.wait_for_selector(".plot[data-drawn]")
        wide, inside = tab.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
        assert wide <= inside
        tab.route("**/state.json", lambda route: route.abort())
        tab.reload()
        tab.wait_for_function("() => document.querySelector('#state').textContent === 'nobody answers'")


def test_texts_that_are_scripts_do_not_run(chromium):
    from idiolect.watching import Figure, Table, View

    evil, wrong = "<img src=x onerror='window.pwned=1'></script><script>window.pwned=1</script>", list[str]()
    data = [{"type": "scatter", "x": [0, 1], "y": [1, 2], "name": evil, "showlegend": True}]
    figure = Figure("one", evil, evil, data, {"height": 300, "xaxis": {"title": {"text": evil}}})
    view = View(evil, evil, evil, [evil], [Table(evil, [evil], [[evil]])], [figure])
    with served(lambda: view) as address, opened(chromium, address, wrong) as tab:
        tab.wait_for_selector(".plot[data-drawn]")
        assert tab.evaluate("window.pwned") is None
        assert tab.text_content("#title") == evil
        assert tab.text_content("td") == evil
        assert wrong == []
