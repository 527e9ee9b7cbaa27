"""The tables of `idiolect inspect`, for the terminal."""

import math

import numpy as np
from rich.console import Console
from rich.table import Table

from idiolect.engines.side_by_side import Batching
from idiolect.experiments.value import Experiment
from idiolect.inspection.cost_estimate import Cost, Estimate
from idiolect.inspection.distances import root_mean_square
from idiolect.inspection.diversity import Diversity
from idiolect.inspection.problem_inspection import Inspection
from idiolect.report.headline import Rows


def print_inspection(experiment: Experiment, found: Inspection, cost: Estimate, console: Console | None = None) -> None:
    """Tables of sizes, distances, diversity and cost."""
    console = console or Console()
    console.width = max(console.width, 120)  # a wide table is better than a folded one
    for table in (_sizes(experiment, found), _heterogeneity(found), _costs(cost)):
        console.print(table)
    for line in (*found.notes, *cost_lines(cost)):
        console.print(line, highlight=False, markup=False)


def _sizes(experiment: Experiment, found: Inspection) -> Table:
    unseen = len(found.sizes["train"]) - len(found.participating)
    title = f"{experiment.name}: {found.problem}, {len(found.participating)} clients that take part"
    table = Table(title=f"{title}, {unseen} unseen" if unseen else title, title_justify="left")
    columns, rows = size_rows(found)
    for name in columns:
        table.add_column(name, justify="left" if name == "samples" else "right")
    for row in rows:
        table.add_row(*row)
    return table


def size_rows(found: Inspection) -> Rows:
    """Of every part, and of all parts together, how much clients have; and how many classes they hold."""
    rows = []
    for name, sizes in (*found.sizes.items(), ("together", together(found))):
        told = sizes.min(), np.median(sizes), sizes.max(), sizes.sum()
        rows.append([name, *(f"{value:,.0f}" for value in told)])
    if found.classes is not None:
        held = (found.classes.counts > 0).sum(1)
        rows.append(["classes held", str(held.min()), f"{np.median(held):g}", str(held.max()), ""])
    return Rows(["samples", "fewest", "median", "most", "in all"], rows)


def together(found: Inspection) -> np.ndarray:
    """The samples of every client, all parts together."""
    return np.sum(list(found.sizes.values()), axis=0)


def _heterogeneity(found: Inspection) -> Table:
    table = Table(title="How heterogeneous it is (Per-FedAvg, Sec. 4.2 and Assumption 5)", title_justify="left")
    table.add_column("measure")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("on what, and what to hold it against")
    for row in heterogeneity_rows(found):
        table.add_row(*row)
    return table


def heterogeneity_rows(found: Inspection) -> list[tuple[str, str, str]]:
    """Every measure with its value and what it was found on."""
    rows = []
    if found.classes is not None:
        pairs, own = _pairs(found.classes.between), found.classes.to_average
        compared = f"{len(found.classes.compared)} of {len(found.participating)} clients"
        rows += [
            (
                "TV of classes between clients",
                f"{_mean(pairs):.3f}",
                f"mean over pairs of {compared}; largest {_max(pairs):.3f}",
            ),
            (
                "TV of classes to everybody",
                f"{root_mean_square(own):.3f}",
                f"root mean square, as in (19); largest {own.max():.3f}; (19) has samples, which are further apart",
            ),
        ]
    if found.samples is not None:
        pairs, own = _pairs(found.samples.between), found.samples.to_everybody
        some = (
            f"{len(found.samples.clients)} of {len(found.participating)} clients, up to {found.samples.rows} rows each"
        )
        rows += [
            ("W1 between clients", f"{_mean(pairs):.4g}", f"mean over pairs of {some}; largest {_max(pairs):.4g}"),
            (
                "W1 to everybody",
                f"{root_mean_square(own):.4g}",
                f"root mean square, as in (22); largest {own.max():.4g}",
            ),
            (
                "W1 of two equal samples",
                f"{found.samples.alike:.4g}",
                "two random samples of everybody's rows: what chance makes",
            ),
        ]
    return [
        *rows,
        *_diversity_rows(found.diversity, len(found.participating)),
        *[_bound(*bound) for bound in found.bounds],
    ]


def _diversity_rows(found: Diversity, clients: int) -> list[tuple[str, str, str]]:
    what = "training rows" if found.by_row else "batches"
    noisy = "" if found.by_row else "; noise of the batches included"
    return [
        (
            "gamma_G at the start",
            f"{found.gradient:.4g}",
            f"||grad f|| is {found.mean_gradient:.4g}; {found.gradient_clients} of {clients} "
            f"clients, up to {found.gradient_draws} {what} each",
        ),
        (
            "gamma_H at the start",
            f"{found.hessian:.4g}",
            f"||Hess f|| is {found.mean_hessian:.4g}; {found.hessian_clients} of {clients} "
            f"clients, up to {found.hessian_draws} {what} each; spectral norm, from below{noisy}",
        ),
    ]


def _bound(of: str, value: float, why: str) -> tuple[str, str, str]:
    return f"{of}, bound for all models", f"{value:.4g}", why


def _pairs(between: np.ndarray) -> np.ndarray:
    return between[np.triu_indices(len(between), 1)]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0


def _max(values: np.ndarray) -> float:
    return float(values.max()) if values.size else 0.0


_DISTURBED = 0.7  # of a core: less says that other processes were in the way
_COST_COLUMNS = (
    "algorithm",
    "updates a seed",
    "compiling",
    "an update",
    "scoring a client",
    "all seeds",
    "kept by clients",
)


def _costs(cost: Estimate) -> Table:
    title = (
        f"What a run will take: an estimate, for {cost.seeds} seed{'s' if cost.seeds > 1 else ''} on {cost.cores} cores"
    )
    table = Table(title=title, title_justify="left")
    for name in _COST_COLUMNS:
        table.add_column(name, justify="left" if name == "algorithm" else "right", no_wrap=True)
    for each in cost.algorithms:
        table.add_row(*cost_row(each))
    return table


def cost_row(each: Cost) -> list[str]:
    """One algorithm's line of the table."""
    if each.stopped:
        return [each.label, f"{each.updates:,}", *["?"] * 5]
    return [
        each.label,
        f"{each.updates:,}",
        duration(each.compile_seconds),
        duration(each.turn_seconds),
        duration(each.score_seconds),
        duration(each.seconds),
        size(each.kept_bytes),
    ]


def cost_columns() -> tuple[str, ...]:
    """What the columns of `cost_row` are called."""
    return _COST_COLUMNS


def cost_lines(cost: Estimate) -> list[str]:
    """The sums, and what they are made of."""
    held = f"data is {size(cost.data_bytes)}, a model {size(cost.model_bytes)}"
    whole = f"{size(cost.memory_bytes)} of memory"
    needed = (
        f"more than {whole} ({held}; what the process itself needs, this system does not tell)"
        if cost.process_bytes is None
        else f"{whole}: {size(cost.process_bytes)} that this process has needed (of which {held})"
    )
    lines = [
        f"In all about {duration(cost.seconds)}, and {needed}, and what clients keep and models under way, at the most "
        "demanding algorithm.",
        "An estimate from a few turns on this machine as busy as it is now; the timeline is the first seed's; "
        "references, pictures and checkpoints are not in it.",
    ]
    if cost.share < _DISTURBED:
        lines.append(
            f"The machine is busy: this process got {cost.share:.0%} of one core. Undisturbed, a run would rather take "
            f"{duration(cost.seconds * cost.share)}."
        )
    if cost.disk_bytes:
        lines.append(f"Beyond {size(cost.budget_bytes)} what clients keep goes to disk: {size(cost.disk_bytes)} of it.")
    lines += batching_lines(cost)
    return lines + [f"{each.label} could not be watched: {each.stopped}." for each in cost.algorithms if each.stopped]


def batching_lines(cost: Estimate) -> list[str]:
    """How many turns are computed at once, what that follows from, and on how many devices."""
    kinds: dict[Batching, list[str]] = {}
    for each in cost.algorithms:
        if each.batching is not None:
            kinds.setdefault(each.batching, []).append(each.label)
    return [f"{', '.join(labels)}: {_batching_in_words(kind)}." for kind, labels in kinds.items()]


def _batching_in_words(kind: Batching) -> str:
    turns = "one turn" if kind.width == 1 else f"{kind.width} turns"
    where = "this device" if kind.devices == 1 else f"each of {kind.devices} devices"
    if kind.memory_bytes is not None:
        why = f"a quarter of its {size(kind.memory_bytes)} holds that many models of {size(kind.model_bytes)}, 8 each"
    else:
        why = (
            "as training.side_by_side says" if kind.asked else "as CPUs do unless training.side_by_side says otherwise"
        )
    return f"{turns} at a time on {where}, {why}"


def duration(seconds: float) -> str:
    """Seconds in words, to two digits or so."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def size(count: float) -> str:
    """Bytes in words."""
    power = min(int(math.log(max(count, 1), 1024)), 4)
    return f"{count / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
