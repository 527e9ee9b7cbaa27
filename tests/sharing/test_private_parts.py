"""Private parts against a NumPy loop, and the axis' own laws: nothing private, everything private, nothing leaks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import (
    Algorithm,
    Choice,
    Evaluation,
    Experiment,
    Links,
    NamedAlgorithm,
    OwnTraining,
    Sharing,
    catalog,
    objectives,
    protocols,
)
from idiolect.contracts import Oracle
from idiolect.engines import Workers
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_seed
from idiolect.experiments.running import Services, run_cells
from idiolect.sharing import join, keep_private, private_leaves, split
from idiolect.trees import names_of

STEP, LOCAL = 0.1, 4
DIGITS = Choice(
    "digits", {"clients": 4, "model": {"name": "mlp", "hidden": [6]}, "partition": {"name": "by_classes", "classes": 3}}
)
KEY = jax.random.key(0)


def parts(experiment: Experiment):
    built = build_seed(experiment, 0)
    (cell,) = built.cells.values()
    return built.problem, cell.algorithm


def an_experiment(name: str, **line) -> Experiment:
    training = OwnTraining(local_steps=LOCAL, step_size=STEP, batch_size=8)
    lines = [NamedAlgorithm(name=name, training=training, **line)]
    return Experiment(
        DIGITS, lines, seeds=[0], horizon=20.0, topology=Choice("complete"), evaluation=Evaluation(points=1, steps=[0])
    )


def run(experiment: Experiment):
    with Workers(1) as workers:
        (result,) = run_cells(experiment, Services(workers))
    return result


def exact(function) -> Oracle:
    return Oracle(
        lambda w, key: function(w),
        lambda w, key: jax.value_and_grad(function)(w),
        lambda w, v, key: jax.jvp(jax.grad(function), (w,), (v,))[1],
    )


def two_layers():
    return [{"weight": jnp.ones((2, 2)), "bias": jnp.ones(2)} for _ in range(3)]


@pytest.mark.parametrize(
    ("private", "expected"),
    [
        (["last"], {"2.weight", "2.bias"}),
        (["first"], {"0.weight", "0.bias"}),
        (["body"], {"0.weight", "0.bias", "1.weight", "1.bias"}),
        (["*.bias", "last"], {"0.bias", "1.bias", "2.bias", "2.weight"}),
        (["*"], {f"{layer}.{leaf}" for layer in range(3) for leaf in ("weight", "bias")}),
        ([], set()),
        (lambda name: name.startswith("1"), {"1.weight", "1.bias"}),
    ],
)
def test_patterns_name_layers_with_all_their_leaves(private, expected):
    assert private_leaves(two_layers(), private) == expected


def test_a_pattern_that_matches_nothing_is_refused_with_the_names_there_are():
    with pytest.raises(UserMistake, match=r"private has 'head', which matches no layer.*2\.bias"):
        private_leaves(two_layers(), ["last", "head"])


def test_a_tree_taken_apart_and_joined_is_the_same():
    tree = two_layers()
    travels, stays = split(tree, frozenset({"1.weight"}))
    assert len(jax.tree.leaves(travels)) == 5
    assert len(jax.tree.leaves(stays)) == 1
    assert jax.tree.structure(join(travels, stays)) == jax.tree.structure(tree)


A, B = np.array([1.0, -2.0]), np.array([3.0])


def loss(model):
    coupling = model["body"].sum() * model["head"].sum()
    return ((model["body"] - A) ** 2).sum() + ((model["head"] - B) ** 2).sum() + coupling


def numpy_turns(name: str, turns: int, private_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """FedPer, FedRep and FedBABU for one client, line by line: the shared part, and the private one."""
    body, head = np.zeros(2), np.zeros(1)
    for step in [step for _ in range(turns) for step in range(LOCAL)]:
        to_body, to_head = 2 * (body - A) + head.sum(), 2 * (head - B) + body.sum()
        head_learns = {"fedper": True, "fedrep": step < private_steps, "fedbabu": False}[name]
        body_learns = {"fedper": True, "fedrep": step >= private_steps, "fedbabu": True}[name]
        body, head = body - STEP * body_learns * to_body, head - STEP * head_learns * to_head
    return body, head


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbabu"])
def test_two_turns_of_a_client_against_numpy(name):
    sharing = catalog.cell(name).sharing._replace(private=["head"], private_steps=3)
    first = {"body": jnp.zeros(2), "head": jnp.zeros(1)}
    made = Algorithm(name, objectives.plain(), protocols.synchronous(), LOCAL, STEP, 1, sharing=sharing)
    objective, oracle = keep_private(made, lambda key: first).objective, exact(loss)
    params = objective.shared(first)
    own = objective.begin(params, 0, KEY)
    for _ in range(2 * LOCAL):
        own, grads, _ = objective.gradient(oracle, own, params, params, KEY)
        params = jax.tree.map(lambda leaf, grad: leaf - STEP * grad, params, grads)
    body, head = numpy_turns(name, 2, private_steps=3)
    np.testing.assert_allclose(params["body"], body, rtol=1e-5)
    np.testing.assert_allclose(own.private["head"], head, rtol=1e-5, atol=1e-7)


def test_a_private_part_that_nobody_trained_is_tuned_and_one_that_was_is_not():
    first = {"body": jnp.zeros(2), "head": jnp.zeros(1)}
    made = Algorithm("mine", objectives.plain(), protocols.synchronous(), LOCAL, STEP, 1)
    made = made._replace(sharing=Sharing(["head"], tune_steps=2))
    objective, oracle = keep_private(made, lambda key: first).objective, exact(loss)
    fresh = objective.begin(objective.shared(first), 7, KEY)
    tuned = np.zeros(1)
    for _ in range(2):
        tuned = tuned - STEP * 2 * (tuned - B)
    np.testing.assert_allclose(
        objective.adapt(oracle, fresh, objective.shared(first), KEY).params["head"], tuned, rtol=1e-6
    )
    trained = fresh._replace(taken=jnp.int32(4))
    assert objective.adapt(oracle, trained, objective.shared(first), KEY).params["head"] == 0


def outcome(name: str, **line):
    result = run(an_experiment(name, **line))
    return result.params, [result.model(client) for client in range(4)], result


@pytest.mark.parametrize("name", ["fedavg", "persa_fl_maml", "pfedme", "scaffold", "rasgp"])
def test_with_nothing_private_no_byte_changes(name):
    built = parts(an_experiment(name, private=[]))[1]
    assert built.objective.shared is parts(an_experiment(name))[1].objective.shared


def test_with_everything_private_it_is_local():
    _, alone, _ = outcome("local")
    shared, private, _ = outcome("fedasync", private=["*"])
    assert not jax.tree.leaves(shared)
    for one, other in zip(alone, private, strict=True):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-7), one, other)


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("fedper", {}),
        ("fedrep", {}),
        ("fedbabu", {}),
        ("lg_fedavg", {}),
        ("persa_fl_me", {"iterations": 2}),
        ("persa_fl_maml", {"derivative": "exact"}),
        ("fedprox", {}),
        ("scaffold", {}),
        ("qupel", {"bits": 2, "keep": ["last", "vectors"]}),
        ("pars_push", {}),
        ("sgp", {}),
        ("dpsgd", {}),
    ],
)
def test_what_is_private_is_in_no_message_offer_or_server_state(name, objective):
    line = (
        {"objective": objective}
        if name in ("fedper", "fedrep", "fedbabu", "lg_fedavg")
        else {
            "objective": objective,
            "private": ["last"],
        }
    )
    if name == "fedrep":
        line["private_steps"] = 2
    problem, algorithm = parts(an_experiment(name, **line))
    first = algorithm.objective.shared(problem.init(KEY))
    hidden = set(names_of("", problem.init(KEY))) - set(names_of("", first))
    assert len(hidden) == 2
    protocol = algorithm.protocol
    if hasattr(protocol, "server"):
        state = protocol.server.init(first, 4)
        seen = {*names_of("", state), *names_of("", protocol.server.offer(state))}
    else:
        node = protocol.init(first, jnp.int32(2))
        _, message = protocol.emit(node, first, jnp.int32(0))
        seen = {*names_of("", node), *names_of("", message), *names_of("", protocol.remember(first, jnp.int32(2)))}
    assert seen
    assert not [name for name in seen for secret in hidden if name.endswith(secret)]
    _, models, result = outcome(name, **line)
    assert np.isfinite(result.points[-1].scores["participating"]["own"].mean)
    one, other = (names_of("", model) for model in models[:2])
    assert not any(np.array_equal(one[name], other[name]) for name in hidden)


def test_a_head_without_room_for_the_body_is_refused():
    with pytest.raises(UserMistake, match=r"private_steps is 5, which leaves nothing of training\.local_steps, 4"):
        parts(an_experiment("fedrep"))


def test_private_parts_of_different_shapes_are_refused_where_agents_run_as_one_batch():
    """Only an objective of one's own can keep them: heads that know as many classes as their client has."""
    problem = build_seed(an_experiment("fedavg"), 0).problem

    def begin(params, client, key):
        return {"head": jnp.zeros((6, 2 + client))}

    own = objectives.plain()._replace(begin=begin)
    made = Algorithm("mine", own, protocols.running_sum(), 1, STEP, 8)
    experiment = Experiment(problem, [made], horizon=4.0, topology=Choice("complete"))
    with pytest.raises(UserMistake, match=r"mine keeps \(6, 2\) as '\['head'\]' on one client and \(6, 3\) on another"):
        run(experiment)


@pytest.mark.slow
def test_a_body_shared_by_running_sums_is_within_noise_of_the_run_without_loss(capsys):
    """Agents without a server keep their heads; three messages in ten are lost, and nothing of the body is."""
    seeds, ends = list(range(6)), {}
    training = {"local_steps": 1, "step_size": 0.1, "batch_size": 16}
    for loss in (0.0, 0.3):
        lines = [NamedAlgorithm(name="rasgp", private=["last"], training=OwnTraining(**training))]
        experiment = Experiment(
            Choice("digits", {**DIGITS.options, "clients": 8}),
            lines,
            seeds=seeds,
            horizon=400.0,
            topology=Choice("ring"),
            links=Links(loss=loss),
            evaluation=Evaluation(points=1, steps=[0]),
        )
        with Workers(1) as workers:
            results = list(run_cells(experiment, Services(workers)))
        ends[loss] = np.array([result.points[-1].scores["participating"]["0"].mean for result in results])
    difference = ends[0.3] - ends[0.0]
    error = difference.std(ddof=1) / np.sqrt(len(seeds))
    with capsys.disabled():
        print(f"\n  no loss {ends[0.0].round(3)}, 30 % {ends[0.3].round(3)}: {difference.mean():+.4f} +- {error:.4f}")
    assert ends[0.0].mean() > 0.85
    assert abs(difference.mean()) < max(3 * error, 0.01)
