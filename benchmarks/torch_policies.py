"""The rivals: MEMRL's Algorithm 1 in PyTorch, in an environment that is stepped as usual or in many at once.

Both sample without tracking derivatives, and evaluate the log-probabilities of all that was done at once afterwards.
They differ in how trajectories are drawn, and in whether tasks are solved one after the other or side by side.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch

from policy_case import Case

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # west, east, south, north


class Paths(NamedTuple):
    """Tasks x trajectories x steps."""

    cells: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor


Draw: TypeAlias = Callable[[Sequence[int], torch.Tensor], Paths]  # tasks and their policies -> D trajectories each


class GridWorld:
    """One walker, as an environment is usually written."""

    def __init__(self, size: int, goal: Sequence[int], reward: str) -> None:
        self.size, self.goal, self.reward = size, tuple(goal), reward
        self.starts = [(x, y) for x in range(size) for y in range(size) if (x, y) != self.goal]
        self.x, self.y = self.goal

    def reset(self, start: tuple[int, int] | None = None) -> int:
        """Begin anywhere but at the goal (or where one is told to), and see the cell's number."""
        self.x, self.y = start or random.choice(self.starts)
        return self.x * self.size + self.y

    def step(self, action: int) -> tuple[int, float]:
        """The next cell, and what it earns."""
        if (self.x, self.y) != self.goal:
            dx, dy = MOVES[action]
            self.x = min(max(self.x + dx, 0), self.size - 1)
            self.y = min(max(self.y + dy, 0), self.size - 1)
        distance = abs(self.x - self.goal[0]) + abs(self.y - self.goal[1])
        earned = float(distance == 0) if self.reward == "arrival" else 1 - distance / (2 * (self.size - 1))
        return self.x * self.size + self.y, earned


def one_at_a_time(case: Case) -> Draw:
    """Episode after episode, step after step, with the policy asked for every single action."""
    worlds = [GridWorld(case.size, goal, case.reward) for goal in case.goals]

    def episode(world: GridWorld, policy: torch.Tensor) -> tuple[list[int], list[int], list[float]]:
        cells, actions, rewards = [], [], []
        cell = world.reset()
        for _ in range(case.horizon):
            action = int(torch.multinomial(torch.softmax(policy[cell], 0), 1).item())
            cells.append(cell)
            actions.append(action)
            cell, reward = world.step(action)
            rewards.append(reward)
        return cells, actions, rewards

    @torch.no_grad()
    def draw(tasks: Sequence[int], policies: torch.Tensor) -> Paths:
        drawn = [
            [episode(worlds[task], policy) for _ in range(case.trajectories)]
            for task, policy in zip(tasks, policies, strict=True)
        ]
        return Paths(*(torch.tensor([[e[part] for e in episodes] for episodes in drawn]) for part in range(3)))

    return draw


class GridWorlds:
    """Many walkers at once, D for each of some tasks; the same rules in tensors."""

    def __init__(self, case: Case, tasks: Sequence[int]) -> None:
        self.size, self.reward = case.size, case.reward
        self.goals = torch.tensor([case.goals[task] for task in tasks])[:, None]  # tasks x 1 x 2
        self.shape, self.moves = (len(tasks), case.trajectories), torch.tensor(MOVES)
        self.weights = torch.tensor([case.size, 1])

    def reset(self, cells: torch.Tensor | None = None) -> torch.Tensor:
        """Begin anywhere but at the goals (or where one is told to), and see the cells' numbers."""
        if cells is None:
            cells = torch.randint(self.size**2 - 1, self.shape)
            cells += cells >= (self.goals * self.weights).sum(-1)
        self.places = torch.stack([cells // self.size, cells % self.size], -1)
        self.left = self._distance()
        return cells

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The next cells, and what they earn."""
        moved = (self.places + self.moves[actions]).clamp_(0, self.size - 1)
        self.places = torch.where((self.left == 0)[..., None], self.places, moved)
        self.left = self._distance()
        earned = (self.left == 0).float() if self.reward == "arrival" else 1 - self.left / (2 * (self.size - 1))
        return (self.places * self.weights).sum(-1), earned

    def _distance(self) -> torch.Tensor:
        return (self.places - self.goals).abs_().sum(-1)


def batched(case: Case) -> Draw:
    """All trajectories side by side; an action is where a uniform number falls among the policy's probabilities."""

    @torch.no_grad()
    def draw(tasks: Sequence[int], policies: torch.Tensor) -> Paths:
        worlds, table = GridWorlds(case, tasks), policies.softmax(-1).cumsum(-1)[..., :-1].reshape(-1, len(MOVES) - 1)
        offset = torch.arange(len(tasks))[:, None] * case.size**2
        chances = torch.rand(case.horizon, *worlds.shape, 1)
        columns: tuple[list[torch.Tensor], ...] = ([], [], [])
        cells = worlds.reset()
        for chance in chances:
            actions = (chance >= table[cells + offset]).sum(-1)
            after, rewards = worlds.step(actions)
            for column, new in zip(columns, (cells, actions, rewards), strict=True):
                column.append(new)
            cells = after
        return Paths(*(torch.stack(column, -1) for column in columns))

    return draw


def gradient(case: Case, policies: torch.Tensor, paths: Paths) -> torch.Tensor:
    """Of J_i on these trajectories: scores times rewards-to-go, less what the other trajectories earned on average."""
    rewards = paths.rewards * case.discount ** torch.arange(case.horizon)
    to_go = rewards.flip(-1).cumsum(-1).flip(-1)
    advantages = to_go - (to_go.sum(1, keepdim=True) - to_go) / (case.trajectories - 1)
    tables = policies.detach().requires_grad_()
    log_probs = tables.log_softmax(-1)[torch.arange(len(tables))[:, None, None], paths.cells, paths.actions]
    return torch.autograd.grad((log_probs * advantages).sum() / case.trajectories, tables)[0]


def memrl(case: Case, draw: Draw, iterations: int, side_by_side: bool = False) -> torch.Tensor:
    """So many iterations of Algorithm 1, with its tasks one after the other or side by side."""
    w = torch.zeros(case.size**2, len(MOVES))
    for tasks in case.rounds[:iterations]:  # l. 3-4
        groups = [tasks] if side_by_side else [[task] for task in tasks]
        nearby = torch.cat([solve(case, w, group, draw) for group in groups])  # l. 5-7
        w = (1 - case.step_size * case.lambda_) * w + case.step_size * case.lambda_ * nearby.mean(0)  # l. 8
    return w


def solve(case: Case, w: torch.Tensor, tasks: Sequence[int], draw: Draw) -> torch.Tensor:
    """Line 6, as "Bi-level optimization" has it, for all inner steps."""
    theta = w.repeat(len(tasks), 1, 1)
    for _ in range(case.inner_steps):
        direction = gradient(case, theta, draw(tasks, theta)) - case.lambda_ * (theta - w)  # (a)
        theta = theta + case.inner_step_size * direction  # (b)
    return theta


def seconds_per_iteration(
    case: Case, draw: Draw, threads: int, iterations: int, repeats: int, side_by_side: bool = False
) -> list[float]:
    """How long an iteration takes, in each of several repeats of some iterations."""
    torch.set_num_threads(threads)
    memrl(case._replace(inner_steps=1), draw, 1, side_by_side)  # warms up
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        memrl(case, draw, iterations, side_by_side)
        times.append((time.perf_counter() - began) / iterations)
    return times
