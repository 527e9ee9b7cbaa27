"""What a recipe that says nothing gets: numbers that decide results, so that none of them changes unnoticed."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from idiolect import Budget, Evaluation, objectives, protocols
from idiolect.network.unreliable_links import Links
from idiolect.protocols import server_optimizers

STALENESS = {"staleness": "constant", "staleness_a": 0.5, "staleness_b": 4.0}  # FedAsync's hinge begins at 4
ROBUST = {"combine": "mean", "trim": 0.2, "clip_norm": None, "server": None}
CODEBOOKS = {"bits": 2, "levels": None, "layer_bits": None, "codebooks": "layer", "keep": ("first", "last", "vectors")}
DESCENT = {"step_size": 0.1, "optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0}
SUMMED = {"summed_steps": True, "catch_up": None}  # PARS-Push, Alg. 1, l. 4
OBJECTIVES = {
    "plain": {},
    "proximal": {"mu": 0.1},
    "maml": {"steps": 1, "step_size": 0.01, "derivative": "exact", "batches": "independent", "delta": 0.001},
    "moreau": {"lambda_": 20.0, "accuracy": 0.0, "iterations": 10, "inner_step_size": None, "batches": "shared"},
    "apfl": {"alpha": 0.5, "step_size": 0.01, "learn_alpha": True},
    "ditto": {"lambda_": 1.0, "step_size": 0.01, "tune_steps": 10},
    "post_training": {**CODEBOOKS, "centers": "kmeans", "lambda_p": 0.0, **DESCENT},
    "quantized": {
        **CODEBOOKS,
        "centers": "kmeans",
        "sharpness": None,  # P -> infinity
        "lambda_": 1e-4,
        "lambda_p": 0.0,  # what a client alone has; the catalog's `qupel` has another
        **DESCENT,
        "centers_step_size": 1e-4,
        "levels_stop": None,  # as printed
        "fine_tune_after": None,
    },
}
PROTOCOLS = {
    "synchronous": {"participation": 1.0, "beta": 1.0, "weighting": "uniform", **ROBUST},
    "asynchronous": {"beta": 1.0, **STALENESS},
    "buffered": {"size": 10, "beta": 1.0, **STALENESS, **ROBUST},
    "mixing": {"alpha": 0.6, **STALENESS},
    "scaffold": {"option": "II", "participation": 1.0, "beta": 1.0},
    "feddyn": {"alpha": 0.1, "participation": 1.0},
    "calibrated": {"size": 10, "beta": 1.0},
    "ifca": {"models": 2, "participation": 1.0, "beta": 1.0, "spread": 0.5},
    "l2gd": {"lambda_": 1.0, "participation": 1.0},
    "running_sum": {"catch_up": None},
    "push_sum": SUMMED,
    "gossip": SUMMED,
    "local": {},
}
# Reddi et al. 2021, Sec. 5: beta1 = 0.9 and beta2 = 0.99, beta1 = 0 for Adagrad, and tau = 1e-3; the step size is ours.
ADAPTIVE = {"step_size": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3}
SERVER_OPTIMIZERS = {
    "sgd": {"step_size": 1.0, "momentum": 0.0},
    "adam": ADAPTIVE,
    "yogi": ADAPTIVE,
    "adagrad": {"step_size": 0.01, "beta1": 0.0, "tau": 1e-3},
}


def defaults(factory: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(factory).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_has_these_unless_told_otherwise(name):
    assert defaults(getattr(objectives, name)) == OBJECTIVES[name]


def test_binary_relax_grows_its_lambda_as_its_authors_do():
    """Yin et al. 2018: lambda grows by 1.02 an epoch; one bit."""
    found = defaults(objectives.binary_relax)
    lambda_ = found.pop("lambda_")
    assert (lambda_.value, lambda_.growth, lambda_.decay, lambda_.every) == (1.0, 0.0, 1.02, 100)
    assert found == {**CODEBOOKS, "bits": 1, "lambda_p": 0.0, **DESCENT, "fine_tune_after": None}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocol_has_these_unless_told_otherwise(name):
    assert defaults(getattr(protocols, name)) == PROTOCOLS[name]


def test_only_those_who_are_alone_share_no_model():
    assert not protocols.local().shares
    servers = (getattr(protocols, name)() for name in PROTOCOLS.keys() - {"local", "running_sum", "push_sum", "gossip"})
    assert all(protocol.shares for protocol in servers)


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
def test_a_server_s_optimizer_has_these_unless_told_otherwise(name):
    assert defaults(server_optimizers.BY_NAME[name]) == SERVER_OPTIMIZERS[name]


def test_nothing_is_left_out():
    assert OBJECTIVES.keys() | {"binary_relax"} == set(objectives.__all__)
    assert PROTOCOLS.keys() == set(protocols.__all__)
    assert SERVER_OPTIMIZERS.keys() == server_optimizers.BY_NAME.keys()


def test_clients_are_scored_like_this_unless_told_otherwise():
    assert Budget() == Budget((0, 1), 0.01, 32, "test", None, (), None)
    table = Evaluation()
    assert (table.steps, table.step_size, table.split, table.points, table.last) == ([0, 1], 0.01, "test", 20, 1)


def test_links_lose_and_delay_as_in_the_paper():
    """PARS-Push, Sec. 5: Gamma_w = 2, Gamma_d = 2, Gamma_f = 1; the share that is lost is ours."""
    assert Links() == Links(
        wake=0.5, gamma_w=2, loss=0.3, gamma_f=1, least_delay=1, gamma_d=2, extra_delay=1.0, duplication=0.0
    )
