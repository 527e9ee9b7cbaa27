"""What Fig. 2c of PersA-FL says of gradients: those that stand for a Moreau client's work take as many, counted."""

from idiolect.experiments.building import build_algorithm, build_seed
from idiolect.experiments.recipe_files import load_recipe
from idiolect.leaderboard.turn_costs import turn_cost
from idiolect.registry import Choice


def test_fig_2c_counts_the_gradients_of_a_turn():
    small = Choice("digits", {"clients": 3, "model": "linear"})
    experiment = load_recipe("persafl-cifar10", []).replace(problem=small)
    problem = build_seed(experiment, 0).problem
    lines = {line.label or line.name: line for line in experiment.lines}

    def taken(label):
        return turn_cost(problem, build_algorithm(experiment, lines[label], problem)).evaluations

    assert taken("fedasync") == taken("local") == 10
    assert taken("persa_fl_me") == taken("fedasync-100") == taken("local-100") == 100
    assert taken("persa_fl_maml") == 40
    assert taken("persa_fl_maml-33") == 132
