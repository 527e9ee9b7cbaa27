"""Rounds in place of a horizon, and passes over a client's rows in place of a number of steps."""

import jax
import numpy as np
import pytest

import idiolect
from idiolect import Experiment, NamedAlgorithm, OwnTraining, Training
from idiolect.experiments.building import build_seed
from idiolect.experiments.describing import describe, write_experiment
from idiolect.experiments.evaluation_plan import plan_evaluation
from idiolect.experiments.recipe_files import load_recipe, parse_recipe, read_toml
from idiolect.network import Network
from idiolect.network.topologies import complete

QUADRATICS = idiolect.Choice("quadratics", {"clients": 4})
SIZES = (3, 8, 21, 40)


@pytest.fixture(scope="module")
def ragged():
    """Clients with 3 to 40 rows, all of which are for training; every row of a client is the same."""

    def loss(w, batch):
        return 0.5 * ((w - batch) ** 2).sum(1).mean()

    data = [np.full((size, 2), float(client + 1), np.float32) for client, size in enumerate(SIZES)]
    return idiolect.problem(lambda key: jax.numpy.zeros(2), loss, data)


def test_rounds_are_those_of_the_same_network_in_virtual_time():
    """Seven rounds come to the same bytes as a horizon at which the seventh closes."""
    line, unsteady = NamedAlgorithm(name="fedavg", protocol={"participation": 0.5}), Network(dropout=0.3)
    built = build_seed(Experiment(QUADRATICS, [line], horizon=1000.0, network=unsteady), 0)
    timed = built.cells["fedavg"].table
    end = float(timed.arrived[timed.round == 6].max())
    options = {"protocol": {"participation": 0.5}, "network": unsteady, "points": 1, "step_size": 0.1}
    counted, same = (
        idiolect.learn(built.problem, "fedavg", **ends, **options) for ends in ({"rounds": 7}, {"horizon": end})
    )
    assert (counted.table.round.max(), counted.table.arrived.max()) == (6, 7.0)
    assert (same.table.client == counted.table.client).all()
    assert np.asarray(counted.params).tobytes() == np.asarray(same.params).tobytes()


def test_an_experiment_in_rounds_ends_with_them_whoever_learns():
    experiment = Experiment(QUADRATICS, ["local", "fedavg", "pars_push"], rounds=5)
    built = build_seed(experiment, 0)
    assert experiment.horizon == 5
    assert plan_evaluation(experiment).times == [0, 1, 2, 3, 4, 5]  # 20 points, but between rounds nothing changes
    assert [built.cells[label].table.round.max() for label in ("local", "fedavg")] == [4, 4]
    assert built.cells["pars_push"].table.length == 5
    assert np.bincount(built.cells["local"].table.client).tolist() == [5, 5, 5, 5]


def test_rounds_and_horizon_take_each_others_place():
    experiment = Experiment(QUADRATICS, ["fedavg"], rounds=5)
    assert experiment.replace(seeds=[1]).rounds == 5
    assert experiment.replace(rounds=6).horizon == 6
    longer = experiment.replace(horizon=50.0)
    assert (longer.rounds, longer.horizon) == (None, 50.0)
    assert Experiment(QUADRATICS, ["fedavg"]).horizon == 200
    set_both = load_recipe("demo", ["rounds=3", "training.epochs=2"])
    assert (set_both.rounds, set_both.training.epochs, set_both.training.local_steps) == (3, 2, None)
    with pytest.raises(idiolect.UserMistake, match="rounds 3 and horizon 9"):
        load_recipe("demo", ["rounds=3", "horizon=9"])
    assert "horizon" not in describe(experiment)
    again = parse_recipe(read_toml(write_experiment(experiment), "it"))
    assert (again.rounds, again.horizon) == (5, 5.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": 5, "horizon": 20.0}, "rounds 5 and horizon 20"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"rounds": 5, "evaluation": {"times": [7.0]}}, "the run ends at round 5"),
        ({"rounds": 5, "timeline": "mine.csv"}, "rounds 5 and a timeline"),
        ({"training": {"epochs": 1, "local_steps": 3}}, "local_steps 3 and epochs 1"),
        ({"training": {"epochs": 0}}, "epochs"),
    ],
)
def test_two_ends_are_refused(options, said):
    with pytest.raises(idiolect.UserMistake, match=said):
        Experiment(QUADRATICS, ["fedavg"], **options)


@pytest.mark.parametrize("name", ["fedasync", "fedbuff"])
def test_who_has_no_rounds_is_refused(name):
    with pytest.raises(idiolect.UserMistake, match=f"rounds is 5, but {name} has none.*give horizon instead"):
        build_seed(Experiment(QUADRATICS, [name], rounds=5), 0)


def expected_steps(problem, epochs, batch_size):
    sizes = problem.clients.train.sizes
    return [max(1, -(-epochs * int(size) // batch_size)) for size in sizes]


@pytest.mark.parametrize("name", ["local", pytest.param("dpsgd", marks=pytest.mark.slow)])
def test_an_epoch_is_as_many_steps_as_a_client_has_batches(ragged, name):
    """Each client goes (1 - eta)^steps of its way to its own minimiser; agents that are cut off do so alone."""
    options = {"epochs": 2, "batch_size": 4, "step_size": 0.1, "rounds": 1, "points": 1}
    if name == "dpsgd":
        options |= {"topology": complete(), "links": idiolect.Links(wake=1.0)}
    found = idiolect.learn(ragged, name, **options)
    steps = expected_steps(ragged, 2, 4)
    assert len(set(steps)) > 2  # the clients are not alike
    alone = np.array([(client + 1) * (1 - 0.9**count) for client, count in enumerate(steps)])
    if name == "local":
        assert [float(found.received(client)[0]) for client in range(4)] == pytest.approx(alone.tolist(), rel=1e-5)
    else:
        assert float(found.params[0]) == pytest.approx(alone.mean(), rel=1e-5)  # gossip keeps the average


def test_scaffold_knows_how_many_steps_each_client_has_taken(ragged):
    options = {"epochs": 1, "batch_size": 4, "step_size": 0.1, "rounds": 1, "points": 1}
    found = idiolect.learn(ragged, "scaffold", protocol={"option": "II"}, **options)
    for client, count in enumerate(expected_steps(ragged, 1, 4)):
        mean = -(client + 1) * (1 - 0.9**count) / (0.1 * count)
        assert float(found.personal[client].control[0]) == pytest.approx(mean, rel=1e-4)
    exact = idiolect.learn(ragged, "scaffold", protocol={"option": "I"}, **options)
    assert [float(exact.personal[client].control[0]) for client in range(4)] == pytest.approx([-1, -2, -3, -4])


@pytest.mark.slow
def test_momentum_begins_afresh_with_every_turn_of_passes(ragged):
    """Two rounds of momentum that is forgotten in between, against a loop."""
    momentum = idiolect.LocalOptimizer("momentum", beta1=0.5)
    options = {"batch_size": 4, "step_size": 0.1, "rounds": 2, "points": 1, "optimizer": momentum}
    found = idiolect.learn(ragged, "local", epochs=1, **options)
    for client, count in enumerate(expected_steps(ragged, 1, 4)):
        w = 0.0
        for _ in range(2):
            speed = 0.0
            for _ in range(count):
                speed = 0.5 * speed + (w - (client + 1))
                w -= 0.1 * speed
        assert float(found.received(client)[0]) == pytest.approx(w, rel=1e-5)


def test_epochs_of_an_algorithm_replace_the_steps_of_all():
    both = Training(local_steps=7)
    assert OwnTraining(epochs=2).over(both)["local_steps"] is None
    assert OwnTraining(local_steps=2).over(Training(epochs=3)) | {} == {**dict(Training(local_steps=2)), "epochs": None}
    line = NamedAlgorithm(name="fedavg", training=OwnTraining(epochs=2))
    built = build_seed(Experiment(QUADRATICS, [line, "fedprox"], training=both, rounds=1), 0)
    assert [built.cells[name].algorithm.epochs for name in ("fedavg", "fedprox")] == [2, None]
    assert built.cells["fedprox"].algorithm.local_steps == 7


def test_who_counts_steps_refuses_passes(ragged):
    with pytest.raises(idiolect.UserMistake, match=r"protocol\.lambda weighs"):
        idiolect.learn(ragged, "l2gd", epochs=1, rounds=1)
    private_first = NamedAlgorithm(name="fedrep", private=["*"], training=OwnTraining(epochs=1))
    with pytest.raises(idiolect.UserMistake, match="by private_steps of the local steps"):
        build_seed(Experiment(QUADRATICS, [private_first]), 0)
