"""What an exhibit of a paper is: a figure or a table, the scales it can be run at, and how its claims are decided."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from idiolect.report.page import Picture

SCALES = ("quick", "desk", "paper")  # seconds; two cores for up to half an hour; the paper's own sizes
Verdict = Literal["holds", "not shown", "excluded", "fails"]  # as `idiolect.papers.decisions` says


class Claim(NamedTuple):
    """What a paper says, and what the numbers here say to it."""

    statement: str
    paper: str  # its number, or empty where it gives none
    ours: str  # with spread
    test: str  # how the verdict was reached
    verdict: Verdict
    seeds: Sequence[int]
    finding: str = ""  # why, where it does not hold
    values: Mapping[str, Any] = {}  # the numbers behind `ours`, seed by seed, for whoever wants to count again
    needs: str = ""  # how many seeds a decision takes; empty where there is one


class ExhibitRecord(NamedTuple):
    """What became of an exhibit's claims: what its `claims.json` says."""

    exhibit: str
    source: str
    shows: str
    scale: str
    size: str
    seeds: Sequence[int]
    seconds: float
    command: str  # which gives the same again
    claims: Sequence[Claim]
    made_by: Mapping[str, Any] = {}  # the code and the machine behind the numbers, as `idiolect.papers.provenance` says


class Table(NamedTuple):
    """Numbers in rows, the paper's beside ours where it prints any."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Findings(NamedTuple):
    """What running an exhibit came to.

    `runs` are the run folders behind it. `seconds` is the time that its results took when they were made, by what was
    written down then; None where nothing was, and the exhibit's own work is all there is to measure.
    """

    claims: Sequence[Claim]
    pictures: Sequence[Picture]
    tables: Sequence[Table] = ()
    runs: Sequence[Path] = ()
    seconds: float | None = None


class Scale(NamedTuple):
    """How large an exhibit is run: in words, for the page, and on which seeds if the user names none."""

    size: str
    seeds: tuple[int, ...]


class Request(NamedTuple):
    """One running of an exhibit. What is finished under `out` is not run again."""

    scale: str
    seeds: tuple[int, ...]
    out: Path
    data_dir: Path | None = None
    progress: Callable[[str, float], None] = lambda what, share: None  # what is being done, and how much of it is done
    stop: Callable[[], bool] = lambda: False  # has the user asked to stop? then `Interrupted` is raised


class Exhibit(NamedTuple):
    """A figure or a table of a paper."""

    name: str  # persa-fl-fig-2b
    source: str  # PersA-FL, Fig. 2b
    shows: str  # one sentence
    scales: Mapping[str, Scale]
    perform: Callable[[Request], Findings]
