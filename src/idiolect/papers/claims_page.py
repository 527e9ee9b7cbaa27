"""All exhibits on one Markdown page, from what their `claims.json` say: the papers beside ours."""

from collections.abc import Mapping, Sequence

from idiolect.papers.exhibit import SCALES, Claim, Exhibit, ExhibitRecord
from idiolect.papers.exhibit_page import duration, measured
from idiolect.papers.exhibits import EXHIBITS
from idiolect.papers.self_check import committed
from idiolect.papers.sizing_page import read_sizings, section
from idiolect.papers.wording import listed

_MACHINE = {
    "quick": "The quick scale only tries out that everything runs: its numbers say nothing about the papers.",
    "desk": "Times are those of a machine with two CPU cores and no GPU, as each run wrote them down while it ran, "
    "beside whatever else the machine did. Exhibits are run one by one; `idiolect reproduce NAME` runs one again and "
    "says whether it comes to the numbers on this page.",
    "paper": "The paper's own sizes, for a bigger machine.",
}
_HOW = """\
Every verdict is reached by the numbers, with the test that stands in the table, and never by hand:

- **A is above B**: Student's paired one-sided test over the seeds, which share data, timelines and starting points. It
  *holds* if the mean difference is above zero with p < 0.05. It *fails* if the mean difference is not above zero. It is
  *excluded* if the 95 % interval of the difference ends below the size that is claimed: the paper's own number, or the
  smallest advantage that would matter, stated beforehand. It is *not shown* if the mean difference is above zero and
  p is not that small: the numbers point that way, and the seeds are too few, or the effect too small, to tell it from
  chance. Above *each* of several: every one of these tests must hold, and the weakest counts.
- **Clients nested in seeds**, where a claim says so: the same of a mixed model, in which the clients of a seed have
  something in common. Where seeds spread more than their clients explain it is the test over seeds; else clients count.
- **A is as good as B**: two one-sided tests, 5 % each, against a margin on both sides.
- **In every case**: it *holds* if it is so for every case and every seed. One counterexample decides: it *fails*,
  whatever the mean is.
- Other tests are named where they are used.

± is the standard deviation over seeds, and [ ] the 95 % confidence interval of a mean over seeds. A claim is *decided*
if it holds, is excluded, or fails with an interval that lies on the other side. Where it is not, the last column says
how many seeds a decision would take: as many as tell a difference as large as the measured one from chance with a power
of 0.8 at the measured spread (noncentral t), which is a plan and no promise. Where a claim does not hold, what was
found stands below its table. How settings were chosen is told in [results.md](results.md)."""


def committed_page() -> str:
    """What has been run at the desk and committed, exhibit by exhibit, and what the papers' own sizes would take."""
    exhibits = list(EXHIBITS.values())
    found = {exhibit.name: committed(exhibit.name) for exhibit in exhibits}
    records = {name: record for name, record in found.items() if record is not None}
    end = section(exhibits, read_sizings("paper"))
    return overview(exhibits, records, "desk", "idiolect reproduce --committed", end)


def overview(
    exhibits: Sequence[Exhibit],
    records: Mapping[str, ExhibitRecord],
    scale: str,
    command: str,
    end: Sequence[str] = (),
) -> str:
    """The page; exhibits without a record are named as not run. `end` are lines to end with."""
    lines = [
        "# The papers' figures and tables, run again",
        "",
        f"Written by `{command}`. {_MACHINE[scale]}",
        "",
        _HOW,
        "",
        "| exhibit | shows | seeds | time | claims that hold | decided |",
        "| --- | --- | --- | ---: | --- | --- |",
    ]
    for exhibit in exhibits:
        lines.append(_row(exhibit, records.get(exhibit.name)))
    for exhibit in exhibits:
        if exhibit.name in records:
            lines += ["", *_part(records[exhibit.name])]
    return "\n".join([*lines, *end]) + "\n"


def listing(exhibits: Sequence[Exhibit]) -> list[tuple[str, str, list[str]]]:
    """Name, where it is from and what it shows, and the scales in words."""
    return [
        (exhibit.name, f"{exhibit.source}: {exhibit.shows}", [_scale(exhibit, name) for name in SCALES])
        for exhibit in exhibits
    ]


def _scale(exhibit: Exhibit, name: str) -> str:
    if name not in exhibit.scales:
        return f"{name}: not at this scale"
    scale = exhibit.scales[name]
    return f"{name}: {scale.size}; seeds {listed(scale.seeds)}"


def _row(exhibit: Exhibit, record: ExhibitRecord | None) -> str:
    if record is None:
        return f"| {exhibit.source} | {exhibit.shows} | | | not run | |"
    hold, decided = (sum(which(claim) for claim in record.claims) for which in (_holds, is_decided))
    anchor = record.source.lower().replace(" ", "-").translate(str.maketrans("", "", ".,`"))
    link = f"[{record.source}](#{anchor})"
    seeds, took = len(record.seeds), duration(record.seconds)
    return f"| {link} | {record.shows} | {seeds} | {took} | {hold} of {len(record.claims)} | {decided} |"


def is_decided(claim: Claim) -> bool:
    """Has it come to an end, whatever the end is? Not shown is none."""
    return claim.verdict != "not shown" and not claim.needs


def _holds(claim: Claim) -> bool:
    return claim.verdict == "holds"


def _part(record: ExhibitRecord) -> list[str]:
    size = record.size[0].upper() + record.size[1:]
    lines = [
        f"## {record.source}",
        "",
        f"`{record.command}`. {size}. Seeds {listed(record.seeds)}; {duration(record.seconds)}.",
        "",
        "| the paper says | its number | here | decided by | verdict | a decision takes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for claim in record.claims:
        here = measured(claim, record)
        cells = (claim.statement, claim.paper, here, claim.test, f"**{claim.verdict}**", claim.needs)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    unmet = [claim for claim in record.claims if claim.verdict != "holds" and claim.finding]
    for finding in dict.fromkeys(claim.finding for claim in unmet):
        about = [claim.statement for claim in unmet if claim.finding == finding]
        lines += ["", f"{finding} ({'; '.join(about)}.)" if len(about) < len(record.claims) else finding]
    return lines
