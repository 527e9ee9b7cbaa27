"""Learning to act as just another f_i: f_i(w) = -J_i(w), with derivatives from trajectories of the current policy.

M. T. Toghani, S. Perez-Salazar, C. A. Uribe. On first-order meta-reinforcement learning with Moreau envelopes (MEMRL).
2023, as in the seminar: "Policy gradient approach" and Algorithm 1. Second derivatives: J. Foerster et al. DiCE: the
infinitely differentiable Monte Carlo estimator. 2018. Their baseline: J. Mao et al. A baseline for any order gradient
estimation in stochastic computation graphs. 2019.

| MEMRL | code |
| --- | --- |
| tau ~ q_i(.; w) | `rollout` |
| R_i(tau) = sum_h gamma^h r^h, J_i(w) = E R_i(tau) | `policy_oracle`, `value` is -J_i on D trajectories |
| g_i(tau; w) = sum_h grad log pi(a^h, s^h; w) R_i^h(tau), R_i^h = sum_{l >= h} gamma^l r^l | `gradient` |
| grad J_i(D_i; w), the mean of g_i over a batch of D trajectories | the batch size is D |
| Alg. 1, l. 6: theta^0 = w, steps beta, accuracy nu | `moreau`: `inner_step_size` = beta, `accuracy` = nu |
| (a): new trajectories in every inner step | `moreau`: `batches` = "independent" |
| Alg. 1, l. 8: w <- (1 - alpha lambda) w + alpha lambda mean theta_i | `moreau` under `synchronous`, 1 local step |
| Alg. 1, l. 4: a batch of B tasks | `synchronous`, `participation` = B / |I| |

Rewards-to-go are discounted from the start of the episode, gamma^l and not gamma^(l-h), as printed; this is the true
gradient of J_i.

The second derivative. Differentiating sum_h log pi(a^h) R^h twice, with trajectories held fixed, forgets that the
trajectories come from the policy: it has the terms with Hessians of log pi and misses those with products of scores.
So the function differentiated is DiCE's, sum_l gamma^l r^l [P_l], where [P_l] is 1 with the derivatives of the
probability of the first l + 1 actions over itself. Its value is the return, its gradient is g_i, term by term, and its
Hessian has the mean of the Hessian of J_i. The baseline subtracts b_h ([P_h] - [P_{h-1}]): nothing from the value,
b_h grad log pi(a^h) from the gradient, and terms of mean zero from the Hessian. `gradient` is g_i as printed, which is
the same and takes less time.

Deviations: the paper has no baseline, and neither has `baseline="none"`; `others` takes for b_h what the other
trajectories of the batch earned from step h on, on average, which does not depend on the trajectory and so leaves all
means alone. Where `moreau` repeats its key (`batches` = "shared"), this oracle draws from the policy as it is by then,
but with the same random numbers, and so from the same starts.

Laws: gradient and Hessian-vector product have the means of the exact ones and errors like 1 / sqrt(D); the same key
gives the same numbers. The gradient is not the derivative of `value` at a fixed key, which jumps where an action
changes: finite differences at one key (`maml` with `hessian_free`) need a wide `delta` and many trajectories.
"""

from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from idiolect.contracts import Key, Oracle, Params, PyTree, Scalar
from idiolect.errors import UserMistake
from idiolect.problems.worlds.environments import Environment, State, Task
from idiolect.problems.worlds.policies import Policy

Baseline: TypeAlias = Literal["none", "others"]


class Trajectory(NamedTuple):
    """What was seen, done and earned in each of the steps of an episode."""

    observations: jax.Array
    actions: jax.Array
    rewards: jax.Array


def rollout(environment: Environment, policy: Policy, task: Task, params: Params, key: Key) -> Trajectory:
    """One episode of the policy in the environment."""
    begin, rest = jax.random.split(key)
    acting, moving = jax.random.split(rest)

    def step(state: State, chance: tuple[PyTree, Key]) -> tuple[State, Trajectory]:
        noise, key = chance
        observation = environment.observe(task, state)
        action = policy.sample(params, observation, noise)
        state, reward = environment.step(task, state, action, key)
        return state, Trajectory(observation, action, reward)

    chances = policy.noise(acting, environment.horizon), jax.random.split(moving, environment.horizon)
    return jax.lax.scan(step, environment.reset(task, begin), chances)[1]


def start(environment: Environment, task: Task, key: Key) -> State:
    """Where the episode of this key begins, whatever the policy."""
    return environment.reset(task, jax.random.split(key)[0])


def discounted(rewards: jax.Array, discount: float) -> jax.Array:
    """gamma^h r^h, where h is the last axis."""
    return rewards * discount ** jnp.arange(rewards.shape[-1])


def policy_oracle(
    environment: Environment,
    policy: Policy,
    task: Task,
    trajectories: int,
    discount: float = 1.0,
    baseline: Baseline = "none",
) -> Oracle:
    """-J_i and its derivatives, estimated on `trajectories` = D episodes of the policy at the point it is given."""
    if trajectories < 1:
        raise UserMistake(f"the batch size is {trajectories}, but must be at least 1 trajectory")
    if baseline == "others" and trajectories == 1:
        raise UserMistake(
            "problem.baseline is 'others', but a batch of 1 trajectory has no others; "
            "take a batch size of at least 2, or the baseline 'none'"
        )
    if not 0 <= discount <= 1:
        raise UserMistake(f"problem.discount is {discount:g}, but must lie in [0, 1]")

    def act(params: Params, key: Key) -> tuple[Trajectory, jax.Array]:
        """D episodes, with gamma^h r^h for rewards, and what each could expect to earn from step h on: b_h."""
        # The policy that acts is held fixed: how its choices depend on it is the business of the log-probabilities.
        acting = jax.lax.stop_gradient(params)
        keys = jax.random.split(key, trajectories)
        paths = jax.vmap(partial(rollout, environment, policy, task, acting))(keys)
        paths = paths._replace(rewards=discounted(paths.rewards, discount))
        if baseline == "none":
            return paths, jnp.zeros_like(paths.rewards)
        to_go = _to_go(paths.rewards)
        return paths, (to_go.sum(0) - to_go) / (trajectories - 1)

    def log_probs(params: Params, paths: Trajectory) -> jax.Array:
        return jax.vmap(jax.vmap(partial(policy.log_prob, params)))(paths.observations, paths.actions)

    def value(params: Params, key: Key) -> Scalar:
        paths, expected = act(params, key)
        likelihood = _one_with_derivatives(jnp.cumsum(log_probs(params, paths), axis=1))  # [P_h], of actions up to h
        before = jnp.concatenate([jnp.ones_like(likelihood[:, :1]), likelihood[:, :-1]], axis=1)
        return -(likelihood * paths.rewards - expected * (likelihood - before)).sum(1).mean()

    def gradient(params: Params, key: Key) -> tuple[Scalar, Params]:
        paths, expected = act(params, key)
        advantages = _to_go(paths.rewards) - expected
        grads = jax.grad(lambda w: -(log_probs(w, paths) * advantages).sum(1).mean())(params)  # -g_i, as printed
        return -paths.rewards.sum(1).mean(), grads

    def hessian_product(params: Params, vector: Params, key: Key) -> Params:
        return jax.jvp(lambda w: jax.grad(value)(w, key), (params,), (vector,))[1]

    return Oracle(value, gradient, hessian_product)


def _to_go(rewards: jax.Array) -> jax.Array:
    """R_i^h, the sum of what is earned from step h on."""
    return jnp.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]


def _one_with_derivatives(log_prob: jax.Array) -> jax.Array:
    """DiCE's magic box: 1, differentiated as a probability divided by itself held fixed."""
    return jnp.exp(log_prob - jax.lax.stop_gradient(log_prob))
