"""Adaptations that any model can be scored with: steps of some layers only, and a client's nearest neighbours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import Choice, Evaluation, Experiment, UserMistake
from idiolect.contracts import Classifier, Shard
from idiolect.evaluation.neighbours import Neighbours, chosen_share, neighbour_score
from idiolect.evaluation.scores import Budget
from idiolect.evaluation.scoring import scorer
from idiolect.experiments.building import build_seed
from idiolect.experiments.running import Services, run_cells
from idiolect.experiments.value import from_tables
from idiolect.objectives import plain

CLASSES = 3
LINEAR = Classifier(
    features=lambda params, batch: batch["x"] @ params["body"],
    logits=lambda params, batch: batch["x"] @ params["body"] @ params["head"],
    labels=lambda batch: batch["y"],
)


def a_client(memory: int, scored: int):
    """A model, and rows of a client that follow another rule than the model's; all others are poisoned."""
    rng = np.random.default_rng(memory)
    params = {"body": rng.standard_normal((4, 5)), "head": rng.standard_normal((5, CLASSES))}
    rows = {"x": rng.standard_normal((memory + scored + 20, 4)), "y": np.zeros(memory + scored + 20, np.int32)}
    rows["y"][:] = (rows["x"] @ rng.standard_normal((4, CLASSES))).argmax(1)
    rows["x"][-20:] = np.nan
    params, rows = (
        jax.tree.map(lambda leaf: np.asarray(leaf, leaf.dtype.char.replace("d", "f")), t) for t in (params, rows)
    )
    store = jax.tree.map(jnp.asarray, rows)
    return params, Shard(store, np.int32(0), np.int32(memory)), Shard(store, np.int32(memory), np.int32(scored)), rows


def distribution(features, x, memory, labels, k, scale):
    """Marfoq et al., Sec. 3: the k nearest, each counting exp(-d)."""
    apart = np.sqrt(((features - x) ** 2).sum(1))
    near = np.argsort(apart, kind="stable")[:k]
    votes = np.zeros(CLASSES)
    for i in near:
        votes[labels[i]] += np.exp(-(apart[i] - apart[near[0]]) / scale)
    return votes / votes.sum()


def by_numpy(params, rows, memory, scored, k, share, scale):
    features = rows["x"] @ params["body"]
    logits = features @ params["head"]
    probabilities = np.exp(logits - logits.max(1, keepdims=True))
    probabilities /= probabilities.sum(1, keepdims=True)

    def mixed(i, share, but=None):
        kept = [j for j in range(memory) if j != but]
        votes = distribution(features[kept], features[i], memory, rows["y"][kept], k, scale)
        return share * votes + (1 - share) * probabilities[i]

    if share is None:
        shares = np.linspace(0, 1, 11)
        likely = [sum(np.log(max(mixed(i, s, i)[rows["y"][i]], 1e-6)) for i in range(memory)) for s in shares]
        share = shares[int(np.argmax(likely))]
    right = [mixed(i, share).argmax() == rows["y"][i] for i in range(memory, memory + scored)]
    return np.mean(right), share


@pytest.mark.parametrize(("memory", "scored", "k"), [(70, 90, 5), (7, 3, 10), (64, 64, 1), (65, 129, 3)])
@pytest.mark.parametrize("share", [None, 0.0, 0.6, 1.0])
def test_neighbours_against_numpy(memory, scored, k, share):
    params, store, test, rows = a_client(memory, scored)
    rule = Neighbours(k, share, scale=0.7)
    found = neighbour_score(LINEAR, params, store, test, rule)
    expected, chosen = by_numpy(params, rows, memory, scored, k, share, 0.7)
    assert float(found) == pytest.approx(expected, abs=1e-6)
    if share is None:
        assert float(chosen_share(LINEAR, params, store, rule)) == pytest.approx(chosen)


def test_who_remembers_one_label_alone_has_no_other_by_its_neighbours():
    """With more than half of the say they always win, however sure the model is of another label."""
    params, store, test, rows = a_client(20, 60)
    rows["y"][:20] = 0
    rule = Neighbours(5, 0.6, scale=0.7)
    store, test = (shard._replace(rows=jax.tree.map(jnp.asarray, rows)) for shard in (store, test))
    found = float(neighbour_score(LINEAR, params, store, test, rule))
    assert found == pytest.approx((rows["y"][20:80] == 0).mean(), abs=1e-6)
    assert found == pytest.approx(by_numpy(params, rows, 20, 60, 5, 0.6, 0.7)[0], abs=1e-6)


def test_who_remembers_nothing_has_the_model():
    params, store, test, rows = a_client(0, 60)
    right = (rows["x"][:60] @ params["body"] @ params["head"]).argmax(1) == rows["y"][:60]
    found = neighbour_score(LINEAR, params, store, test, Neighbours(5, 1.0, scale=0.7))
    assert float(found) == pytest.approx(right.mean(), abs=1e-6)


def test_who_remembers_nothing_but_one_sample_has_the_model():
    params, store, *_ = a_client(1, 30)
    alone = chosen_share(LINEAR, params, store, Neighbours())
    assert float(alone) == 0, "leaving it out, nobody is left to ask"


DIGITS = Choice(
    "digits",
    {
        "clients": 5,
        "samples": 500,
        "unseen": 0.2,
        "model": {"name": "mlp", "hidden": [8]},
        "partition": {"name": "by_classes", "classes": 2},
    },
)


def an_experiment(**evaluation) -> Experiment:
    plan = Evaluation(points=1, **{"steps": [0, 3], "step_size": 0.3} | evaluation)
    return Experiment(DIGITS, ["fedavg"], horizon=40.0, evaluation=plan)


def test_only_what_is_named_is_tuned():
    problem = build_seed(an_experiment(), 0).problem
    whole = problem.init(jax.random.key(0))
    shard, key = problem.clients.adapt.shard(0), jax.random.key(1)

    def show(params, batch):
        return jnp.stack([jnp.abs(params[0]["weight"] - whole[0]["weight"]).sum(), params[1]["bias"].sum()])[0]

    shown = problem._replace(metric=problem.metric._replace(score=show))
    moved = {
        tunes: np.asarray(scorer(shown, plain(), Budget((0, 3), 0.3, tunes=tunes))(whole, (), shard, shard, key))[0]
        for tunes in ((), ("last",))
    }
    assert moved[()][1] > 0
    assert moved["last",].tolist() == [0, 0, 0]


def test_a_run_has_the_column_and_it_helps_where_clients_know_two_classes(workers):
    (result,) = run_cells(an_experiment(neighbours={}, tunes=["last"], headline="neighbours"), Services(workers))
    scores = result.points[-1].scores
    for group in ("participating", "unseen"):
        assert list(scores[group]) == ["0", "3", "own", "neighbours"]
        assert scores[group]["neighbours"].mean > scores[group]["0"].mean + 0.1


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        ({"tunes": ["head"]}, r"evaluation.tunes has 'head', which matches no layer.*1\.bias"),
        ({"headline": "neighbours"}, r"evaluation.*headline 'neighbours', but no table of that name"),
        ({"neighbours": {"k": 0}}, r"evaluation.neighbours.k is 0, but"),
        ({"neighbours": {"kk": 1}}, r"evaluation.neighbours.kk"),
    ],
)
def test_mistakes_are_sentences(evaluation, said):
    told = {"problem": DIGITS, "algorithms": ["fedavg"], "evaluation": {"points": 1, **evaluation}}
    with pytest.raises(UserMistake, match=said):
        build_seed(from_tables(told), 0)


def test_a_problem_without_features_is_refused():
    with pytest.raises(UserMistake, match=r"evaluation.neighbours is given, but the problem quadratics does not say"):
        build_seed(an_experiment(neighbours={}).replace(problem=Choice("quadratics")), 0)
