"""Who is scored on what: means are means, and what adapts never sees what is scored."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Clients, Metric, Problem, Shard
from idiolect.engines import Program, Snapshot, Workers, prepare
from idiolect.evaluation.scores import OWN, Budget, ClientScore, spread
from idiolect.evaluation.scoring import Adapter, adaptation_key, adapter, mean_scores, own_model, scorer
from idiolect.evaluation.scoring_clients import GroupScorer, evaluate, group_scorer
from idiolect.problems import problem
from idiolect.problems.data.client_splits import PARTS
from idiolect.protocols.alone import Alone

NAN = float("nan")
STEPS = Budget(steps=(0, 1, 3), step_size=0.1, batch_size=4)


@pytest.mark.parametrize(("size", "chunk"), [(1, 128), (127, 128), (128, 128), (129, 128), (300, 128), (17, 16)])
def test_the_mean_score_is_numpy_s_mean_over_exactly_the_client_s_rows(size, chunk):
    """Sizes around the rows that are scored at once; all other rows are poisoned."""
    values = np.full(400, np.nan, np.float32)
    values[50 : 50 + size] = np.random.default_rng(size).standard_normal(size)
    metric = Metric("offset", lambda params, batch: ((batch["x"] - params) ** 2).mean(), higher_is_better=False)
    plain = Metric("mean", lambda params, batch: batch["x"].mean(), higher_is_better=True)
    shard = Shard({"x": jnp.asarray(values)}, np.int32(50), np.int32(size))
    found = jax.jit(mean_scores, static_argnums=(0, 3))((metric, plain), jnp.float32(0.5), shard, chunk)
    mine = values[50 : 50 + size].astype(np.float64)
    np.testing.assert_allclose(found, [((mine - 0.5) ** 2).mean(), mine.mean()], rtol=1e-5, atol=1e-6)


def test_one_compiled_program_scores_clients_of_all_sizes():
    metric = Metric("mean", lambda params, batch: batch.mean(), higher_is_better=True)
    compiled = jax.jit(lambda shard: mean_scores((metric,), None, shard)[0])
    rows = jnp.arange(500.0)
    for size in (3, 200, 500):
        assert float(compiled(Shard(rows, np.int32(0), np.int32(size)))) == pytest.approx((size - 1) / 2)
    assert compiled._cache_size() == 1


# A small problem whose four clients pull the parameters their own ways; one of them is unseen.


def squares(params: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    return ((batch["x"] - params) ** 2).mean()


def the_parameters(params: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    """A score that shows the adapted parameters and looks at no row."""
    return params.sum()


def made(score=squares) -> Problem:
    rng = np.random.default_rng(0)
    data = [{"x": (k + rng.standard_normal((20, 2))).astype(np.float32)} for k in range(4)]
    return problem(lambda key: jnp.full(2, 0.25), squares, data, score=score, higher_is_better=False, unseen=0.25)


def poisoned(clients: Clients, *parts: str) -> Clients:
    """The same clients with NaN in all rows of these parts, wherever they are looked at from."""
    values = np.array(clients.train.rows["x"])
    for part in parts:
        split = getattr(clients, part)
        for start, size in zip(split.starts, split.sizes, strict=True):
            values[start : start + size] = np.nan
    store = {"x": jnp.asarray(values)}
    return clients._replace(**{part: getattr(clients, part)._replace(rows=store) for part in PARTS})


class Bench(NamedTuple):
    clients: Clients
    program: Program
    score: GroupScorer
    adapt: Adapter
    budget: Budget

    def snapshot(self, personal: dict[int, object] | None = None) -> Snapshot:
        params = self.program.init(jax.random.key(0))
        server, work = self.program.protocol.server, self.program.work
        offer, kept = server.offer(server.init(params, 3)), personal or {}

        def model(client: int) -> object:
            return work.model(kept[client] if client in kept else work.init(offer, client, jax.random.key(0)), offer)

        return Snapshot(0.0, 0, params, model, kept, lambda client: (), {})

    def run(self, clients: Clients | None = None, snapshot: Snapshot | None = None, **other) -> list[ClientScore]:
        budget, seed = other.pop("budget", self.budget), other.pop("seed", 0)
        with Workers(1) as workers:
            where = clients or self.clients
            return evaluate(self.score, METRICS, where, snapshot or self.snapshot(), budget, workers, seed=seed)


METRICS = made().metrics
BENCHES: dict[tuple[str, object], Bench] = {}


def bench(name: str, score=squares) -> Bench:
    """An algorithm, ready to be scored; compiled once for all tests."""
    if (name, score) not in BENCHES:
        task = made(score)
        program = prepare(task, catalog.algorithm(name, task))
        BENCHES[name, score] = made_bench(task, program)
    return BENCHES[name, score]


def made_bench(task: Problem, program: Program) -> Bench:
    objective = program.algorithm.objective
    return Bench(task.clients, program, group_scorer(task, objective, STEPS), adapter(task, objective, STEPS), STEPS)


ALGORITHMS = ["fedavg", "local", "persa_fl_maml", "persa_fl_me"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_poisoned_test_rows_leave_the_adapted_parameters_untouched(name):
    """Nor does what adapts look at the training and the validation rows."""
    ready = bench(name, the_parameters)
    clean, dirty = ready.run(), ready.run(poisoned(ready.clients, "train", "validation", "test"))
    assert clean == dirty
    assert all(np.isfinite(list(client.scores.values())).all() for client in clean)
    assert all(len(set(client.scores.values())) > 1 for client in clean)  # it did adapt


@pytest.mark.parametrize("name", ALGORITHMS)
def test_poisoned_adaptation_rows_leave_the_score_of_the_received_model_untouched(name):
    ready = bench(name)
    clean, dirty = ready.run(), ready.run(poisoned(ready.clients, "adapt", "train"))
    assert [client.scores["0"] for client in clean] == [client.scores["0"] for client in dirty]
    assert all(np.isnan(client.scores["3"]) for client in dirty)  # where the poison does show


def test_poisoned_test_rows_show_in_every_score():
    ready = bench("fedavg")
    for client in ready.run(poisoned(ready.clients, "test")):
        assert np.isnan(list(client.scores.values())).all()


def test_scores_are_those_of_numpy_on_the_client_s_test_rows():
    ready = bench("fedavg")
    for client in ready.run():
        shard = ready.clients.test.shard(client.client)
        rows = np.asarray(shard.rows["x"])[shard.start : shard.start + shard.size]
        assert client.samples == len(rows)
        assert client.scores["0"] == pytest.approx(((rows - 0.25) ** 2).mean(), rel=1e-5)


def test_adaptation_helps_on_data_that_is_unlike_the_start():
    far = max(bench("fedavg").run(), key=lambda client: client.client)
    assert far.scores["3"] < far.scores["1"] < far.scores["0"]


def test_the_own_adaptation_of_a_plain_objective_is_none():
    for client in bench("fedavg").run():
        assert client.scores[OWN] == client.scores["0"]


def test_after_k_steps_the_model_has_moved_by_exactly_k_gradients():
    """On a loss of constant slope 1 in every direction, whatever the batch."""
    task = problem(lambda key: jnp.zeros(2), lambda w, batch: w.sum(), [{"x": np.zeros((5, 1))}], score=the_parameters)
    program = prepare(task, catalog.algorithm("fedavg", task))
    (client,) = made_bench(task, program).run()
    assert [client.scores[k] for k in ("0", "1", "3")] == pytest.approx([0.0, -0.2, -0.6])  # two directions, size 0.1


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_client_s_own_model_is_the_one_whose_score_is_called_own(name):
    """Also for the unseen client, and without a look at the rows that are scored."""
    ready = bench(name, the_parameters)
    blind = poisoned(ready.clients, "train", "validation", "test")
    for client in ready.run(seed=3):
        model = own_model(ready.adapt, blind, ready.snapshot(), 3, client.client).params
        assert float(model.sum()) == pytest.approx(client.scores[OWN], rel=1e-6)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_clients_that_are_scored_in_one_call_get_the_bytes_that_each_gets_alone(name):
    ready, task = bench(name), made()
    alone, snapshot = scorer(task, ready.program.algorithm.objective, STEPS), ready.snapshot()
    for one in ready.run():
        shards = ready.clients.adapt.shard(one.client), ready.clients.test.shard(one.client)
        own = snapshot.own(one.client)
        scores = alone(snapshot.model(one.client), own, *shards, adaptation_key(0))
        assert list(one.scores.values()) == np.asarray(scores, float)[0].tolist()


def test_only_those_are_scored_again_whose_model_is_another():
    ready, calls, known = bench("local"), [], {}
    kept = {client: Alone(jnp.full(2, 0.1 * client), ()) for client in range(4)}

    def counted(group, count, key):
        calls.append(int(count))
        return ready.score(group, count, key)

    def run() -> list[ClientScore]:
        with Workers(1) as workers:
            task = ready.clients, ready.snapshot(kept), STEPS
            return evaluate(counted, METRICS, *task, workers, seed=0, known=known)

    first, again = run(), run()
    assert (calls, again) == ([4], first)
    kept[2] = kept[2]._replace(params=kept[2].params + 0)  # the same numbers in another array
    assert (run(), calls) == (first, [4, 1])
    kept[1] = kept[1]._replace(params=kept[1].params + 1)
    changed = [one.client for one, before in zip(run(), first, strict=True) if one != before]
    assert (changed, calls) == ([1], [4, 1, 1])


def test_every_budget_has_its_column_and_the_objective_its_own():
    assert all(list(client.scores) == ["0", "1", "3", OWN] for client in bench("persa_fl_me").run())


def test_everyone_is_scored_once_participating_and_unseen():
    ready = bench("fedavg")
    groups = {client.client: client.group for client in ready.run()}
    assert sorted(groups) == [0, 1, 2, 3]
    assert {client for client, group in groups.items() if group == "unseen"} == set(ready.clients.unseen)


def test_a_client_is_scored_with_what_it_keeps_and_one_without_a_turn_with_a_fresh_state():
    ready = bench("local")
    client, other = ready.clients.participating[:2]
    before = {score.client: score.scores for score in ready.run()}
    after = {
        score.client: score.scores
        for score in ready.run(snapshot=ready.snapshot({client: Alone(jnp.full(2, 50.0), ())}))
    }
    assert after[client]["0"] > before[client]["0"] + 100
    assert after[other] == before[other]


@pytest.mark.parametrize("at_most", [1, 2, 3, 50])
def test_at_most_so_many_of_each_group_are_scored_and_always_the_same(at_most):
    ready = bench("fedavg")
    few = STEPS._replace(at_most=at_most)
    chosen = [client.client for client in ready.run(budget=few)]
    full = {client.client: client for client in ready.run()}
    assert len([c for c in chosen if c in ready.clients.participating]) == min(at_most, 3)
    assert len([c for c in chosen if c in ready.clients.unseen]) == 1
    assert all(client == full[client.client] for client in ready.run(budget=few))  # and scored as ever


def test_the_seed_chooses_who_is_scored():
    ready = bench("fedavg")
    one = STEPS._replace(at_most=1)
    assert len({ready.run(budget=one, seed=seed)[0].client for seed in range(12)}) > 1


def test_the_validation_split_scores_validation_rows_and_no_others():
    ready = bench("fedavg")
    validation = STEPS._replace(split="validation")
    found = ready.run(budget=validation)
    assert [client.samples for client in found] == [1, 1, 1, 1]
    assert found == ready.run(poisoned(ready.clients, "train", "test"), budget=validation)
    assert found != ready.run()


def test_clients_without_validation_rows_are_left_out_of_the_validation_score():
    ready = bench("fedavg")
    sizes = ready.clients.validation.sizes.copy()
    sizes[2] = 0
    clients = ready.clients._replace(validation=ready.clients.validation._replace(sizes=sizes))
    found = ready.run(clients, budget=STEPS._replace(split="validation"))
    assert sorted(client.client for client in found) == [0, 1, 3]


@pytest.mark.parametrize(
    ("higher_is_better", "count", "worst"),
    [(True, 20, [0, 1]), (False, 20, [19, 18]), (True, 10, [0]), (False, 3, [2]), (True, 1, [0])],
)
def test_the_worst_tenth_is_the_lowest_or_the_highest_as_the_metric_has_it(higher_is_better, count, worst):
    values = np.random.default_rng(0).permutation(count).astype(float).tolist()
    found = spread(values, higher_is_better)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.std == pytest.approx(np.std(values))
    assert found.worst_decile == pytest.approx(np.mean(worst))
    assert found.clients == count
