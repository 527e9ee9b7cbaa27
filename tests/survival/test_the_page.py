"""docs/survival.md names a test for everything that it promises."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "survival.md"


def test_every_row_names_tests_that_there_are():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    assert rows
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, f"no test is named: {row}"
        for file, name in named:
            assert re.search(rf"^def {name}\(", (TESTS / file).read_text(), re.MULTILINE), f"{file} has no {name}"
