"""Do all sides compute the same thing? The environments' rules, and whole iterations on the same trajectories."""

from collections.abc import Sequence

import jax
import numpy as np
import torch

from idiolect import Budget, learn, timeline
from idiolect.engines.simulator.server_program import training_key
from idiolect.experiments.building import build_problem
from idiolect.problems.worlds.environments import grid_navigation
from idiolect.problems.worlds.policies import tabular_policy
from idiolect.problems.worlds.policy_gradient import rollout
from policy_case import Case
from policy_tasks import load
from torch_policies import Draw, GridWorld, GridWorlds, Paths, memrl

ITERATIONS, INNER_STEPS = 2, 3
GENTLE = 0.5  # inner step size: large ones magnify the rounding of either side, until somewhere another action is drawn
WAYS = ("in turn", "side by side")


def differences(case: Case) -> dict[str, float]:
    """How far PyTorch's models are from the engine's after some iterations, with tasks in turn and side by side."""
    everyone = sorted({task for tasks in case.rounds for task in tasks})
    case = case._replace(inner_steps=INNER_STEPS, inner_step_size=GENTLE, rounds=[everyone] * ITERATIONS)
    expected = engine(case)
    assert np.abs(expected).max() > 0.01, "a policy that has not moved would agree with anything"
    found = {way: memrl(case, drawn_by_jax(case), ITERATIONS, way == "side by side") for way in WAYS}
    return {way: float(np.abs(w.numpy() - expected).max()) for way, w in found.items()}


def engine(case: Case) -> np.ndarray:
    """The model after some rounds of everyone, through `learn`."""
    recipe, table = load()
    number = np.repeat(np.arange(ITERATIONS), len(case.rounds[0]))
    outcome = learn(
        build_problem(recipe, recipe.seeds[0]),
        table.name,
        objective={**table.objective, "iterations": INNER_STEPS, "inner_step_size": GENTLE},
        local_steps=1,
        step_size=case.step_size,
        batch_size=case.trajectories,
        timeline=timeline(np.concatenate(case.rounds), number * 1.0, number + 0.5, round=number),
        points=1,
        budget=Budget(steps=(0,), batch_size=case.trajectories),
    )
    return np.asarray(outcome.params)


def drawn_by_jax(case: Case) -> Draw:
    """The trajectories that the engine draws, turn by turn, for the policies that PyTorch has by then."""
    world = grid_navigation(size=case.size, horizon=case.horizon, reward=case.reward, seen="number")
    policy = tabular_policy(world.features, world.actions)
    roll = jax.jit(jax.vmap(lambda goal, w, key: rollout(world, policy, goal, w, key), (None, None, 0)))
    everyone = case.rounds[0]
    calls = dict.fromkeys(everyone, 0)
    independent = load()[1].objective.get("batches") == "independent"  # new random numbers in every inner step

    def draw(tasks: Sequence[int], policies: torch.Tensor) -> Paths:
        drawn = []
        for task, w in zip(tasks, policies, strict=True):
            iteration, inner = divmod(calls[task], case.inner_steps)
            turn = len(everyone) * iteration + everyone.index(task)
            calls[task] += 1
            key = jax.random.split(jax.random.fold_in(training_key(0), np.int32(turn)), 1)[0]
            key = jax.random.fold_in(key, inner) if independent else key
            path = roll(np.array(case.goals[task], np.int32), w.numpy(), jax.random.split(key, case.trajectories))
            drawn.append([np.array(part) for part in path])
        paths = Paths(*(torch.from_numpy(np.stack(part)) for part in zip(*drawn, strict=True)))
        check_rules(case, tasks, paths)
        return paths

    return draw


def check_rules(case: Case, tasks: Sequence[int], paths: Paths) -> None:
    """The same actions from the same starts lead both of PyTorch's environments to the same cells and rewards."""
    worlds = GridWorlds(case, tasks)
    cells = worlds.reset(paths.cells[..., 0].long())
    for step in range(case.horizon):
        torch.testing.assert_close(cells.int(), paths.cells[..., step])
        cells, rewards = worlds.step(paths.actions[..., step])
        torch.testing.assert_close(rewards, paths.rewards[..., step])
    for k, task in enumerate(tasks):
        world = GridWorld(case.size, case.goals[task], case.reward)
        for seen, actions, earned in zip(*(part[k].tolist() for part in paths), strict=True):
            visited = [world.reset(divmod(seen[0], case.size))]
            followed = [world.step(action) for action in actions]
            assert visited + [cell for cell, _ in followed[:-1]] == seen
            np.testing.assert_allclose([reward for _, reward in followed], earned, atol=1e-6)
