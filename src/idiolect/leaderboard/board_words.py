"""The leaderboard in words: what is compared, how it is made fair, and the columns of its tables."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from idiolect.leaderboard.board_problems import COMMON_STEPS, EVALUATION, PROBLEMS, SHARES_OF_BUDGET, TRAINING, Scale
from idiolect.leaderboard.budgets import GRADIENT_TIME
from idiolect.leaderboard.contest import Entry
from idiolect.leaderboard.duels import Duel
from idiolect.leaderboard.published import PFLLIB, pfllib
from idiolect.leaderboard.search_ranges import LOCAL_STEPS
from idiolect.leaderboard.standings import Row, Standing
from idiolect.results.statistics import MeanStd

TITLE = "Leaderboard"
BUDGET_TITLES = {"gradients": "the same number of gradients", "time": "the same virtual time"}
_DEALS = {
    "classes": "2 classes for each client",
    "dirichlet-0.1": "Dirichlet 0.1",
    "dirichlet-0.5": "Dirichlet 0.5",
}
_DATA = {"digits": "Digits", "mnist": "MNIST", "fashion": "Fashion-MNIST", "cifar10": "CIFAR-10"}


class Shown(NamedTuple):
    """An entry of a table: its text, and the number to sort it by, if it is one."""

    text: str
    value: float | None = None


class Leaderboard(NamedTuple):
    """All that a page tells."""

    scale_name: str
    scale: Scale
    standings: Sequence[Standing]
    left_out: Mapping[str, str]  # algorithms that do not enter, and why
    missing: Sequence[str]  # sentences on problems that were not run
    command: str  # which gives the same again
    code: Sequence[str]  # digests of what computed the numbers

    @property
    def problems(self) -> list[str]:
        """Those that were run."""
        return list(dict.fromkeys(standing.problem for standing in self.standings))


def problem_title(name: str) -> str:
    """A problem in words."""
    data, deal = PROBLEMS[name]
    return f"{_DATA[data]}, {_DEALS[deal]}"


def fairness(board: Leaderboard) -> list[str]:
    """How the comparison is made, a sentence or two each."""
    scale = board.scale
    clients = {int(scale.options[PROBLEMS[name][0]]["clients"]) for name in board.problems}
    shares = ", ".join(f"{share:.0%}" for share in SHARES_OF_BUDGET)
    return [
        f"Every algorithm has its own settings: the best of {scale.trials} trials on validation parts of seed "
        f"{_listed(scale.tuning_seeds)}, one of them its defaults. Scores are of test parts on seeds "
        f"{_listed(scale.seeds)}, on which nothing is chosen.",
        f"All have the same data ({_listed(sorted(clients))} clients, a fifth of which take no part in training), "
        f"batches of {TRAINING.batch_size}, {LOCAL_STEPS['with']} local steps a turn with a server and "
        f"{LOCAL_STEPS['without']} without one.",
        f"Gradients: {scale.evaluations:,} for each client that takes part, spent together. They are counted, call by "
        "call, while a client takes a turn; a product with a Hessian counts as two, a loss without its gradient as a "
        "third. A run ends with the last turn or round that it can pay.",
        f"Virtual time: {scale.time:,.0f}, of which a mean download takes 1, an upload 4 to 6 times as long as a "
        f"client's own download, and a gradient {GRADIENT_TIME:g}. Without a server a round takes as long as a mean "
        "download and its gradients, and an agent wakes in two of three. No message is lost.",
        f"A score is a client's mean over three evaluations fixed beforehand, when {shares} of the budget are spent. "
        "No round is picked.",
        "Accuracy is the mean over clients and seeds of the model after what its objective itself prescribes (nothing "
        "for FedAvg, a private head for FedPer, …), ± the standard deviation over seeds. As received: the same model "
        f"before that. Fine-tuned: after {COMMON_STEPS} plain steps of size {EVALUATION.step_size:g} for everyone "
        "alike. Worst tenth: the mean of the worst tenth of clients. Unseen: clients that took no part, after their "
        "own adaptation.",
        "Bytes are what all clients received and sent, as the messages of a run are; steps are versions of the shared "
        "model, or rounds without a server.",
        "The verdict is against the best of the table, on the same clients of the same seeds, by a mixed model of "
        "clients that are nested in seeds, with Holm's correction for all comparisons of the table: below 5 % a method "
        "loses, else the two are not told apart, which does not say that they are equal. The best is chosen on the "
        "same numbers. Below each table stand comparisons that no number chose (the field's favourites with FedAvg "
        "and with nobody, each of our papers with its rival), corrected among themselves.",
        *([scale.note] if scale.note else []),
    ]


def columns(standing: Standing) -> list[str]:
    """The heads of a table."""
    published = ["PFLlib"] if standing.problem in PFLLIB else []
    plain = ["algorithm", "accuracy", "over clients", "worst tenth", "unseen", "as received", "fine-tuned"]
    return [*plain, *published, "gradients", "bytes", "steps", "time", "verdict"]


def shown(standing: Standing, row: Row) -> list[Shown]:
    """A row of a table."""
    published = [Shown(pfllib(standing.problem, row.name))] if standing.problem in PFLLIB else []
    return [
        Shown(row.name),
        _percent(row.own),
        Shown(f"{100 * row.over_clients:.1f}", row.over_clients),
        _percent(row.worst),
        Shown("") if row.unseen is None else _percent(row.unseen),
        Shown(f"{100 * row.received:.1f}", row.received),
        Shown(f"{100 * row.common:.1f}", row.common),
        *published,
        Shown(f"{row.evaluations:,.0f}", row.evaluations),
        Shown(size_in_words(row.bytes), row.bytes),
        Shown(f"{row.steps:,.0f}", row.steps),
        Shown(f"{row.time:,.0f}", row.time),
        Shown(row.verdict),
    ]


DUEL_COLUMNS = ["compared", "difference", "95 % interval", "p", ""]


def duel_in_words(duel: Duel) -> list[str]:
    """A line of the table of duels, in points."""
    gap = duel.difference
    interval = f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}" if gap.pairs > 1 else "one seed is no test"
    p = "" if math.isnan(duel.p) else f"{duel.p:.2g}"
    return [f"{duel.first} over {duel.second}", f"{100 * gap.mean:+.1f}", interval, p, duel.verdict]


def settings_in_words(row: Row) -> str:
    """What was chosen for an algorithm, and what it scored there."""
    chosen = ", ".join(f"{name} {value}" for name, value in row.tuned.settings.items()) or "as it is"
    failed = f"; {row.tuned.failed} of its trials came to nothing" if row.tuned.failed else ""
    return f"{chosen} ({100 * row.tuned.score:.1f} on validation parts{failed})"


def size_in_words(count: float) -> str:
    """Bytes with a unit, to three digits."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} GB"


def finished_in_words(problem: str, entry: Entry) -> str:
    """A line for whoever watches."""
    if entry.refused:
        return f"{problem}: {entry.name} is left out: {entry.refused}"
    told = ", ".join(f"{budget} {100 * tuned.score:.1f}" for budget, tuned in entry.tuned.items())
    return f"{problem}: {entry.name} is done ({told} on validation parts)"


def _percent(value: MeanStd) -> Shown:
    return Shown(f"{100 * value.mean:.1f} ± {100 * value.std:.1f}", value.mean)


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
