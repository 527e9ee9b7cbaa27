"""`mutation/tests.toml` knows every module that holds an algorithm, and no test that is gone."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "idiolect"
ROOMS = ("objectives", "protocols", "network", "quantization", "evaluation")


def test_every_module_of_the_rooms_with_algorithms_has_tests_that_should_notice():
    listed = tomllib.loads((ROOT / "mutation" / "tests.toml").read_text("utf-8"))["tests"]
    modules = {
        f"{room}/{file.name}" for room in ROOMS for file in (PACKAGE / room).glob("*.py") if file.name != "__init__.py"
    }
    assert set(listed) == modules
    missing = [test for tests in listed.values() for test in tests if not (ROOT / test).is_file()]
    assert not missing
