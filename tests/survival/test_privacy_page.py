"""What docs/privacy.md says of every protocol and engine is said of all that there are."""

from pathlib import Path

from idiolect import catalog
from idiolect.contracts import Objective, Work

PAGE = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text("utf-8")


def test_every_protocol_is_on_the_page():
    missing = [name for name in [*catalog.PROTOCOLS, *catalog.PEERS] if f"`{name}`" not in PAGE]
    assert missing == []


def test_contracts_do_not_promise_more_than_the_page():
    assert "never travels" not in (Objective.__doc__ or "")
    assert "docs/privacy.md" in (Work.__doc__ or "")
