"""The navigation that is measured, as numbers; neither JAX nor PyTorch is imported here."""

from typing import Literal, NamedTuple


class Case(NamedTuple):
    """MEMRL's Algorithm 1 on a grid, with a table of preferences for a policy and the baseline of the other episodes.

    Every inner problem takes all its steps: where the accuracy nu would end it is a matter of luck, and time should
    not be.
    """

    size: int
    horizon: int
    discount: float
    reward: Literal["arrival", "nearness"]
    goals: list[list[int]]
    trajectories: int  # D
    lambda_: float
    inner_steps: int
    inner_step_size: float  # beta in "Bi-level optimization"
    step_size: float  # alpha
    rounds: list[list[int]]  # which tasks are worked on, iteration by iteration

    @property
    def environment_steps(self) -> int:
        """How many steps in environments an iteration has, over all tasks, inner steps and trajectories."""
        return len(self.rounds[0]) * self.inner_steps * self.trajectories * self.horizon
