"""Why claims do not hold, as far as it was found out: the sentences of `findings.toml`, by exhibit and claim."""

import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import TypeAlias

from idiolect.options import known
from idiolect.papers.exhibit import Request

FoundOut: TypeAlias = Callable[[str], str]
"""Of one exhibit: claim -> why it does not hold; empty where there is nothing to say."""


def finding(exhibit: str, claim: str) -> str:
    """Why a claim does not hold; empty if the file has no words on it. A claim that it does not list is refused."""
    known(texts(), "exhibit with findings", exhibit)
    known(texts()[exhibit], f"claim of {exhibit}", claim)
    return texts()[exhibit][claim]


def at_the_desk(exhibit: str, request: Request, usual: Sequence[int]) -> FoundOut:
    """What was found out about an exhibit's claims at the desk, on the desk's own seeds: elsewhere it says nothing."""
    here = request.scale == "desk" and tuple(request.seeds) == tuple(usual)

    def found(claim: str) -> str:
        text = finding(exhibit, claim)
        return text if here else ""

    return found


@cache
def texts() -> dict[str, dict[str, str]]:
    """Exhibit -> claim -> text."""
    tables = tomllib.loads((resources.files("idiolect.papers") / "findings.toml").read_text("utf-8"))
    return {exhibit: by_claim(exhibit, entries) for exhibit, entries in tables.items()}


def by_claim(exhibit: str, entries: list[dict[str, list[str] | str]]) -> dict[str, str]:
    """The texts of one exhibit, by claim, from its entries."""
    found: dict[str, str] = {}
    for entry in entries:
        if set(entry) != {"claims", "text"}:
            raise ValueError(f"an entry of {exhibit} has {', '.join(entry)}, but must have claims and text")
        for claim in entry["claims"]:
            if claim in found:
                raise ValueError(f"{exhibit} has two texts on '{claim}'")
            found[claim] = str(entry["text"])
    return found
