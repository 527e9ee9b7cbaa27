"""What the papers claim, run again at the desk (`make slow`): the numbers are those that docs/reproduction.md tells.

And what no figure or table shows: the demo, and that lost messages cost a net nothing.
"""

import json

import pytest

from idiolect.cli import main
from idiolect.comparison.run_comparison import compare_runs
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_files import load_recipe
from idiolect.interface import run
from idiolect.papers import memrl_exhibits
from idiolect.papers.exhibits import EXHIBITS
from idiolect.papers.experiment_changes import keeping
from idiolect.papers.self_check import committed
from idiolect.papers.trials import FinishedTrial, experiment_of
from idiolect.problems.data.datasets import load_images

pytestmark = pytest.mark.slow
DATA = {
    **dict.fromkeys(("persa-fl-fig-2b", "per-fedavg-fig-1", "per-fedavg-fig-1-settings"), "mnist"),
    **dict.fromkeys(("persa-fl-fig-2c", "persa-fl-fig-2-stability", "qupel-table-1-levels"), "cifar10"),
    **dict.fromkeys(("qupel-table-1", "qupel-table-2", "qupel-fig-1", "qupel-table-3"), "cifar10"),
}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Where all exhibits of a session lie, so that those with the same runs share them."""
    return tmp_path_factory.mktemp("reproductions")


@pytest.mark.parametrize("name", [name for name in EXHIBITS if committed(name)])
def test_an_exhibit_comes_to_the_verdicts_that_are_committed(name, out):
    try:
        load_images(DATA.get(name, "digits"))
    except UserMistake as reason:
        pytest.skip(str(reason))
    assert main(["reproduce", name, "--scale", "desk", "--out", str(out)]) in (0, 1), (
        "1: another processor rounds otherwise"
    )
    claims = json.loads((out / f"{name}-desk" / "claims.json").read_text())["claims"]
    told = {claim.statement: claim.verdict for claim in committed(name).claims}
    assert {claim["statement"]: claim["verdict"] for claim in claims} == told


def test_memrl_needs_neither_rounds_nor_on_average_a_server(tmp_path):
    experiment = keeping(experiment_of(memrl_exhibits.RUN, "desk"), ("persa_fl_me", "pars_push_me"))
    ran = FinishedTrial(run(experiment, out=tmp_path / "run"))
    assert memrl_exhibits.shares(ran, "persa_fl_me", "own").min() >= 0.95
    assert (memrl_exhibits.shares(ran, "pars_push_me", "own").mean(axis=0) >= 0.95).all()


def personalized(summary, label):
    return summary.algorithms[label].participating["personalized"]


def test_demo_not_waiting_and_sharing_pay_and_the_moreau_envelope_has_the_highest_mean(tmp_path):
    """What the README says of the demo, every method with settings of its own."""
    found = run("demo", out=tmp_path / "run")
    means = {label: personalized(found.summary, label).mean for label in found.experiment.labels}
    waiting, free = ("fedavg", "per_fedavg"), ("fedbuff", "fedasync", "persa_fl_maml", "persa_fl_me")
    assert min(means[label] for label in free) > max(means[label] for label in (*waiting, "local"))
    assert max(means, key=lambda label: means[label]) == "persa_fl_me"
    rows = {row.second[1]: row for row in compare_runs([found.path], against="fedasync").rows}
    assert all(rows[label].p < 0.05 for label in (*waiting, "local"))
    assert all(rows[label].p > 0.05 for label in ("persa_fl_maml", "persa_fl_me")), "five seeds do not tell them apart"


def test_pars_push_loses_no_accuracy_to_lost_messages_on_a_net(tmp_path):
    """Appendix B's setting, Gamma_w = 1: with 30 % loss as good as without, within the spread over seeds."""
    lossy, whole = (
        run(load_recipe("parspush-digits", settings), out=tmp_path / str(number)).summary
        for number, settings in enumerate(([], ["links.loss=0"]))
    )
    for label in lossy.algorithms:
        with_loss, without = personalized(lossy, label), personalized(whole, label)
        assert abs(with_loss.mean - without.mean) < 2 * max(with_loss.std, without.std)
        assert with_loss.mean > 0.85
