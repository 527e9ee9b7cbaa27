"""Does a run of an exhibit give the numbers that are committed? If not: which claim differs, and by how much.

`committed/` has what each exhibit's claims came to at the desk, number by number. `idiolect reproduce NAME --commit`
writes it anew. Training makes a difference of rounding grow, so another processor or another version of JAX may give
other numbers; the same ones must not.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.errors import UserMistake
from idiolect.files import write_atomically
from idiolect.papers.claim_files import as_tables, from_tables
from idiolect.papers.exhibit import Claim, ExhibitRecord
from idiolect.papers.provenance import code
from idiolect.papers.wording import number

_CLOSE = 1e-6  # relative: what is written has nine digits
_DIGITS = 9
COMMITTED = Path(str(resources.files("idiolect.papers"))) / "committed"


class SelfCheck(NamedTuple):
    """What to say about a record, and whether it is as it should be; None where there is nothing to hold it against."""

    lines: list[str]
    agrees: bool | None


def committed(exhibit: str, folder: Path = COMMITTED) -> ExhibitRecord | None:
    """What is committed of an exhibit, if anything is."""
    file = folder / f"{exhibit}.json"
    return from_tables(json.loads(file.read_text("utf-8"))) if file.is_file() else None


def commit(record: ExhibitRecord, usual: Sequence[int], folder: Path = COMMITTED) -> Path:
    """Write a record down as what a run should give; only at the desk and on its own seeds."""
    if record.scale != "desk" or list(record.seeds) != list(usual):
        raise UserMistake(
            f"--commit is given with --scale {record.scale} and seeds {_words(record.seeds)}, but only the desk's own "
            f"numbers are committed: --scale desk, seeds {_words(usual)}"
        )
    file = folder / f"{record.exhibit}.json"
    folder.mkdir(exist_ok=True)
    write_atomically(file, (json.dumps(_rounded(as_tables(record)), indent=1, ensure_ascii=False) + "\n").encode())
    return file


def check(record: ExhibitRecord, folder: Path = COMMITTED) -> SelfCheck:
    """Hold a record against what is committed."""
    expected = committed(record.exhibit, folder)
    stale = made_by_other_code(record)
    if expected is None:
        return SelfCheck([*stale, "no numbers of this exhibit are committed to hold these against"], None)
    if (record.scale, list(record.seeds)) != (expected.scale, list(expected.seeds)):
        other = (
            f"committed are the numbers of --scale {expected.scale}, seeds {_words(expected.seeds)}: these are others"
        )
        return SelfCheck([*stale, other], None)
    found = list(differences(expected.claims, record.claims))
    if not found:
        return SelfCheck([*stale, f"as committed: {len(record.claims)} claims, in every number"], True)
    return SelfCheck([*stale, *found, _why(expected, record)], False)


def differences(expected: Sequence[Claim], found: Sequence[Claim]) -> Iterator[str]:
    """A sentence on every claim that is not as it was."""
    before, now = ({claim.statement: claim for claim in claims} for claims in (expected, found))
    for statement in {**before, **now}:
        if statement not in now or statement not in before:
            yield f"differs: {statement}: {'is not claimed any more' if statement in before else 'is not committed'}"
            continue
        told = _difference(before[statement], now[statement])
        if told:
            yield f"differs: {statement}: {told}"


def _difference(before: Claim, now: Claim) -> str:
    """How a claim differs: its verdict, and the number that is farthest off."""
    said = f"{now.verdict}, committed {before.verdict}; " if now.verdict != before.verdict else ""
    theirs, ours = (dict(_leaves(claim.values)) for claim in (before, now))
    if theirs.keys() != ours.keys():
        return f"{said}its numbers are others: {len(ours)}, committed {len(theirs)}"
    apart = {name: abs(ours[name] - theirs[name]) for name in ours if not _close(ours[name], theirs[name])}
    if apart:
        worst = max(apart, key=lambda name: apart[name])
        return (
            f"{said}{len(apart)} of {len(ours)} numbers, most of all {worst}, which is {number(ours[worst])}, "
            f"committed {number(theirs[worst])}: off by {number(apart[worst])}; "
            f"here {now.ours}; committed {before.ours}"
        )
    if not ours and now.ours != before.ours:
        return f"{said}{now.ours}, committed {before.ours}"
    return said.removesuffix("; ")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{name}[{place}]")
    elif value is None or isinstance(value, float | int):
        yield name, math.nan if value is None else float(value)


def _close(one: float, other: float) -> bool:
    if not (math.isfinite(one) and math.isfinite(other)):
        return not math.isfinite(one) and not math.isfinite(other)
    return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=1e-12)


def _why(expected: ExhibitRecord, found: ExhibitRecord) -> str:
    theirs, ours = ({**record.made_by} for record in (expected, found))
    codes = theirs.pop("code", None), ours.pop("code", None)
    other = [f"{name} {ours.get(name)} instead of {theirs[name]}" for name in theirs if theirs[name] != ours.get(name)]
    if other:
        return f"this was computed with {', '.join(other)}: roundings differ, and training makes differences grow"
    if codes[0] != codes[1]:
        return "the code that computes has changed since they were committed (idiolect reproduce NAME --commit)"
    return "the same code on the same kind of machine: something is not repeatable"


def made_by_other_code(record: ExhibitRecord) -> list[str]:
    """A sentence if finished runs were read that are not this code's; what differs may be beside the point."""
    codes = list(record.made_by.get("code", ["unknown"]))
    if codes == [code()]:
        return []
    told = f"finished runs were read that other code made ({', '.join(codes)}; this is {code()})"
    return [f"{told}: remove them to have them run again"]


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _words(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
