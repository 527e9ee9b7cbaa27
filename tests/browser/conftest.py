"""A real Chromium without a window, and pages of small runs of every family."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from idiolect.cli import main
from tests.test_export_command import RECIPE as QUANTIZED
from tests.test_policy_runs import RECIPE as POLICIES
from tests.test_serverless_runs import RECIPE as SERVERLESS

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SHORT_DEMO = [
    "horizon=30",
    "seeds=[0,1]",
    "evaluation.points=4",
    "training.local_steps=2",
    'algorithms=[{name="fedavg"},{name="fedasync"},{name="persa_fl_maml"}]',
]
# Once in a few hundred windows the browser stops drawing, and whoever waits for a frame waits for ever. Then, and only
# then, a test is run again; what a page does wrong is no time-out, or is one again.
IN_A_BROWSER = [pytest.mark.slow, pytest.mark.flaky(reruns=2, only_rerun=["TimeoutError"])]
FAMILIES = ("demo", "serverless", "quantized", "policies")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser, driven by playwright; it begins with an empty profile that goes away with it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'idiolect[browser]'")
    with playwright.sync_playwright() as driver:
        installed = shutil.which("chromium") or shutil.which("chromium-browser")
        program = installed or driver.chromium.executable_path  # what `playwright install` would have put there
        if not Path(program).exists():
            pytest.skip("no chromium is installed; python -m playwright install chromium")
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The report of one run of each family; asked for after the browser, so that nothing runs where there is none."""
    place = tmp_path_factory.mktemp("pages")
    recipes = {"serverless": SERVERLESS, "quantized": QUANTIZED, "policies": POLICIES}
    assert main(["run", "demo", "--out", str(place / "demo"), "--set", *SHORT_DEMO]) == 0
    for name, text in recipes.items():
        (place / f"{name}.toml").write_text(text)
        assert main(["run", str(place / f"{name}.toml"), "--out", str(place / name)]) == 0
    return {name: place / name / "report.html" for name in FAMILIES}
