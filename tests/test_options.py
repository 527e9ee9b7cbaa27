"""Named choices with checked options: a factory's signature is all there is to check them against."""

from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.options import as_written, checked, known, make
from idiolect.registry import Choice, Registry


def oven(
    shelf: str = "by code",
    *,
    heat: Annotated[float, Gt(0), Le(300)] = 180.0,
    minutes: Annotated[int, Ge(1)] = 30,
    mode: Literal["fan", "grill"] = "fan",
    lambda_: Annotated[float, Gt(0)] | None = None,
    seed: int = 7,
) -> dict[str, Any]:
    return {"shelf": shelf, "heat": heat, "minutes": minutes, "mode": mode, "lambda_": lambda_, "seed": seed}


def pan(*, width: int) -> int:
    return width


TOOLS = Registry("tools", {"oven": oven, "pan": pan})


def refusal(name: str, options: dict[str, Any]) -> str:
    with pytest.raises(UserMistake) as mistake:
        checked(TOOLS, "tool", Choice(name, options))
    assert "\n" not in str(mistake.value)
    return str(mistake.value)


def test_defaults_come_from_the_signature_and_given_options_win():
    assert checked(TOOLS, "tool", Choice("oven", {})) == {"heat": 180.0, "minutes": 30, "mode": "fan", "lambda_": None}
    assert checked(TOOLS, "tool", Choice("oven", {"heat": 90, "mode": "grill"}))["heat"] == 90.0


def test_make_calls_the_factory_with_options_and_with_what_the_code_adds():
    made = make(TOOLS, "tool", Choice("oven", {"minutes": 5}), seed=3)
    assert (made["minutes"], made["seed"], made["shelf"]) == (5, 3, "by code")


def test_numbers_get_the_type_of_the_signature():
    options = checked(TOOLS, "tool", Choice("oven", {"heat": 200, "minutes": 5.0}))
    assert (type(options["heat"]), type(options["minutes"])) == (float, int)


def test_a_keyword_of_python_is_written_without_its_underscore():
    assert checked(TOOLS, "tool", Choice("oven", {"lambda": 2.0}))["lambda_"] == 2.0
    assert as_written({"lambda_": 2.0, "heat": 1.0, "none": None}) == {"lambda": 2.0, "heat": 1.0}
    assert "lambda_ is not a known key" in refusal("oven", {"lambda_": 2.0})


@pytest.mark.parametrize(
    ("options", "needles"),
    [
        ({"heat": 0}, ["tool.heat is 0", "greater than 0"]),
        ({"heat": 301.5}, ["tool.heat is 301.5", "300"]),
        ({"heat": float("nan")}, ["tool.heat is nan"]),
        ({"heat": "warm"}, ["tool.heat is 'warm'", "number"]),
        ({"minutes": 1.5}, ["tool.minutes is 1.5", "integer"]),
        ({"minutes": 0}, ["tool.minutes is 0", "1"]),
        ({"minutes": None}, ["tool.minutes is None"]),
        ({"minutes": [1]}, ["tool.minutes is [1]"]),
        ({"mode": "gril"}, ["tool.mode is 'gril'", "'fan' or 'grill'"]),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_field_and_what_would_be_right(options, needles):
    message = refusal("oven", options)
    for needle in needles:
        assert needle in message


def test_an_unknown_key_is_refused_with_a_suggestion_and_the_known_ones():
    message = refusal("oven", {"minuts": 3})
    assert "tool.minuts is not a known key (did you mean 'minutes'?)" in message
    assert "heat, minutes, mode, lambda" in message


def test_what_the_code_gives_is_not_the_user_s_to_give():
    assert "tool.seed is not a known key" in refusal("oven", {"seed": 3})
    assert "tool.shelf is not a known key" in refusal("oven", {"shelf": "top"})


def test_a_missing_option_is_named():
    assert refusal("pan", {}) == "tool.width is missing"


def test_an_unknown_name_is_refused_with_a_suggestion_and_the_known_ones():
    with pytest.raises(UserMistake, match=r"tool is 'ovn' \(did you mean 'oven'\?\); known are oven, pan"):
        known(TOOLS, "tool", "ovn")
    with pytest.raises(UserMistake, match="tool is 'zzz'; known are oven, pan"):
        known(TOOLS, "tool", "zzz")


REGISTRIES = {
    "objective": catalog.OBJECTIVES,
    "protocol": catalog.PROTOCOLS,
    "peer": catalog.PEERS,
    "model": catalog.MODELS,
    "token_model": catalog.TOKEN_MODELS,
    "partition": catalog.PARTITIONS,
    "problem": catalog.PROBLEMS,
}
FILE = {"file": "mine"}  # what has no default: whose data it is
NEEDED = {"table": {**FILE, "target": "y"}, **dict.fromkeys(("text", "images", "femnist", "shakespeare"), FILE)}


@pytest.mark.parametrize("what", REGISTRIES)
def test_everything_in_the_catalog_has_defaults_and_refuses_unknown_keys(what):
    for name in REGISTRIES[what]:
        needed = NEEDED.get(name, {})
        checked(REGISTRIES[what], what, Choice(name, needed))
        with pytest.raises(UserMistake, match=f"{what}.no_such_option is not a known key"):
            checked(REGISTRIES[what], what, Choice(name, {**needed, "no_such_option": 1}))


@pytest.mark.parametrize(
    ("what", "name", "option", "value"),
    [
        ("objective", "moreau", "lambda", 0),
        ("objective", "moreau", "iterations", 0),
        ("objective", "maml", "steps", -1),
        ("objective", "maml", "derivative", "exakt"),
        ("objective", "proximal", "mu", -0.1),
        ("protocol", "synchronous", "participation", 1.5),
        ("protocol", "asynchronous", "beta", 0),
        ("protocol", "buffered", "size", 0),
        ("protocol", "scaffold", "option", "III"),
        ("model", "mlp", "activation", "sigmoid"),
        ("model", "mlp", "hidden", [80, 0]),
        ("model", "cnn", "hidden", [-1]),
        ("model", "cnn", "channels", []),
        ("model", "cnn", "channels", [16, -2]),
        ("model", "cnn", "kernel", 0),
        ("model", "cnn", "dropout", 1.0),
        ("model", "cnn", "dropout", -0.5),
        ("partition", "by_classes", "classes", 0),
        ("partition", "dirichlet", "a", 0),
        ("partition", "two_worlds", "a", 1),
        ("problem", "quadratics", "clients", 0),
        ("problem", "quadratics", "unseen", 1.0),
        ("problem", "linear_regression", "samples", 2),
        ("problem", "logistic_regression", "regularization", 0),
        ("problem", "navigation", "size", 1),
        ("problem", "navigation", "horizon", -1),
        ("problem", "navigation", "baseline", "mean"),
        ("problem", "point_navigation", "reach", 0),
        ("problem", "point_navigation", "discount", 1.5),
    ],
)
def test_every_option_of_the_catalog_has_bounds(what, name, option, value):
    with pytest.raises(UserMistake) as mistake:
        checked(REGISTRIES[what], what, Choice(name, {option: value}))
    assert f"{what}.{option}" in str(mistake.value)
