"""One agent without a server as a pure state machine: it knows no network, no disk and no clock.

It hears letters, wakes, and says its last letter again. What it computes when it wakes are the functions of its
protocol, PARS-Push's Algorithm 1 among them, in the order of the stepwise simulator: step, share out, tell, take in.
When it wakes is its own choice, as the paper leaves it, and made here so that free-running agents stay sound:

- It wakes when it has heard something new. Otherwise it says its last letter again, which changes nothing where it has
  been heard. Agents that wake without news give their mass away.
- It does not wake if that would leave it with a weight y below `least_weight`. So a neighbour that is gone for hours
  takes the others' mass only so far: they rest, and go on when it is back. Agents that are all rested and heard cannot
  block each other: one of them then has a y of 1/2 at least, and such a one may wake without news.
- Its rounds are its own count, at least as large as any round that it hears of (L. Lamport, 1978), never a clock's.

Deviations: the step sizes of rounds that it sleeps through (l. 4) add up over `CATCH_UP` rounds at most, unless the
protocol says how many. An agent that comes back with an old disk takes in its mail before it wakes (see `rejoin`).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Params, Peer, Problem, PyTree
from idiolect.deploy.peers.agent_program import AgentProgram, in_64_bits
from idiolect.deploy.peers.agent_state import AgentState, Waking
from idiolect.deploy.peers.letters import NEVER, Letter, Neighbours, Stamp, why_unsound
from idiolect.engines.serverless.layout import check_start_models, step_sizes, summed_step
from idiolect.engines.simulator.server_program import training_key
from idiolect.trees import widest

LEAST_SHARE, RICH = 0.25, 0.5  # weights, before they are shared out
FULL = 64  # shares of one neighbour that wait at most


class Agent(NamedTuple):
    """The functions of one agent."""

    begin: Callable[[], AgentState]
    heard: Callable[[AgentState, Letter], tuple[AgentState, str]]
    wake: Callable[[AgentState, bool], tuple[AgentState, Waking] | None]
    rejoin: Callable[[AgentState, Letter], AgentState]
    recall: Callable[[AgentState, str], Letter | None]
    model: Callable[[AgentState], Params]
    weight: Callable[[AgentState], float]
    peer: Peer
    start: Params


def agent_at(
    program: AgentProgram, place: Neighbours, *, seed: int, horizon: int, start: Params | None = None
) -> Agent:
    """The agent at this place of the network; it is the participating client of its number."""
    made = _Functions(program, place, seed, horizon, start)
    return Agent(
        made.begin,
        in_64_bits(made.heard),
        in_64_bits(made.wake),
        in_64_bits(made.rejoin),
        in_64_bits(made.recall),
        in_64_bits(made.model),
        in_64_bits(made.weight),
        program.peer,
        made.start,
    )


class _Functions:
    def __init__(self, program: AgentProgram, place: Neighbours, seed: int, horizon: int, start: Params | None) -> None:
        problem, algorithm = program.problem, program.algorithm
        self.program, self.place, self.seed, self.horizon = program, place, seed, horizon
        self.peer, self.objective = program.peer, algorithm.objective
        self.client = problem.clients.participating[place.number]
        self.shard = problem.clients.train.shard(self.client)
        drawn = problem.init(jax.random.key(seed)) if start is None else start
        self.start = _own_start(problem, self.objective.shared(drawn), self.client)
        self.theta = step_sizes(algorithm, place.agents, horizon)
        self.kind = jnp.result_type(*jax.tree.leaves(self.start))
        self.key = training_key(seed)
        with jax.enable_x64(True):
            self.nothing = optax.tree.zeros_like(self.peer.holds(self.peer.init(self.start, jnp.int32(1))))

    def begin(self) -> AgentState:
        own = self.objective.begin(self.start, self.client, jax.random.key(self.seed))
        with jax.enable_x64(True):
            degree = jnp.int32(len(self.place.tells))
            node = self.peer.init(self.start, degree)
            memories = {name: self.peer.remember(self.start, degree) for name in self.place.hears}
            still = optax.tree.zeros_like(widest(self.start))
            _, message = jax.eval_shape(self.peer.emit, node, still, jnp.int32(0))
            silence = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), message.content)
            return AgentState(node, own, memories, still, silence, NEVER, -1, -1, 0, {}, {})

    def heard(self, state: AgentState, letter: Letter) -> tuple[AgentState, str]:
        """Put a letter into the mail if it is new; or say why it is refused, before anything is computed with it."""
        if letter.sender not in self.place.hears:
            return state, "it does not come from a peer that this one hears"
        waiting = state.mail.get(letter.sender, ())
        newest = waiting[-1].stamp if waiting else state.known.get(letter.sender, NEVER)
        if letter.stamp <= newest:
            return state, ""
        if wrong := why_unsound(letter, state.said, self.horizon):
            return state, wrong
        # A newer sum says all that older ones said, and a newer copy replaces them; every share counts.
        kept = (*waiting, letter)[-FULL:] if self.peer.carries == "shares" else (letter,)
        return state._replace(mail={**state.mail, letter.sender: kept}), ""

    def wake(self, state: AgentState, patient: bool) -> tuple[AgentState, Waking] | None:
        """Wake with the mail there is; or stay asleep, if there is nothing new or too little to share out.

        `patient` says that it has waited long enough for news to wake without any, if it has enough to share out.
        """
        letters = [letter for waiting in state.mail.values() for letter in waiting]
        t = max([state.clock + 1, *(letter.stamp.round for letter in letters)])
        if letters and self.weight(state) <= 0:
            return self._collected(state, letters, min(t, self.horizon - 1))
        first = state.stamp.round < 0
        if t >= self.horizon or not (letters or first or patient):
            return None
        after, waking = self._taken_in(state, letters, t)
        least = (LEAST_SHARE if letters else RICH) / (len(self.place.tells) + 1)
        if not first and float(self.program.weight_after(state.node, waking.gain)) < least:
            return None
        return self._spoken(after, waking, t)

    def _collected(self, state: AgentState, letters: list[Letter], t: int) -> tuple[AgentState, Waking]:
        """Take in only: who owes what it had sent must not speak before that has come back."""
        after, taken = self._taken_in(state, letters, t)
        return after._replace(node=self.program.settle(state.node, taken.gain)), taken.told

    def _taken_in(self, state: AgentState, letters: list[Letter], t: int) -> tuple[AgentState, "_TakenIn"]:
        """PARS-Push, Alg. 1, l. 16-21: the memories after these letters, and what the letters bring."""
        memories, known, heard, refused = dict(state.memories), dict(state.known), dict[str, list[int]](), {}
        gain = self.nothing
        for sender, stamp, content in letters:
            memories[sender], gain, sound = self.program.take(
                memories[sender], content, np.int32(stamp.round), gain, state.node
            )
            known[sender] = stamp
            if sound:
                heard.setdefault(sender, []).append(stamp.round)
            else:
                refused[sender] = "it brings what no honest peer can have sent"
        after = state._replace(memories=memories, known=known, mail={}, clock=max(state.clock, t - 1))
        return after, _TakenIn(gain, Waking(t, heard, refused, float("nan"), 0, spoke=False))

    def _spoken(self, state: AgentState, taken: "_TakenIn", t: int) -> tuple[AgentState, Waking]:
        eta = summed_step(self.peer, self.theta, state.woke, t).astype(self.kind)  # l. 4
        number = np.int32(self.place.number)
        node, own, moved, content, loss = self.program.step(
            state.node, state.own, self.start, self.shard, self.key, number, eta, np.int32(t)
        )  # l. 5-15
        slept = t - state.woke - (self.peer.catch_up or t) if self.peer.summed_steps else 0
        told = taken.told._replace(loss=float(loss), slept=max(slept, 0), spoke=True)
        return state._replace(
            node=self.program.settle(node, taken.gain),  # l. 22-24
            own=own,
            descended=jax.tree.map(np.add, state.descended, moved),
            said=content,
            stamp=Stamp(state.stamp.incarnation, t),
            clock=t,
            woke=t,
            wakings=state.wakings + 1,
        ), told

    def rejoin(self, state: AgentState, heard: Letter) -> AgentState:
        """Come back as a new incarnation, if an out-neighbour has heard more of this agent than it knows itself."""
        if why_unsound(heard, state.said, self.horizon):
            return state
        node, said, known, rebirth = state.node, state.said, state.known, self.peer.rebirth
        content = jax.tree.map(jnp.asarray, heard.content)
        ahead = rebirth is not None and bool(rebirth.ahead(node, content))
        if not ahead and heard.stamp <= state.stamp:
            return state
        if rebirth is not None and ahead:
            node, said = rebirth.rejoin(node, content), content
            # Sums that were refused as too large may be right for one who is in debt: all are heard once more.
            known = {name: stamp._replace(round=NEVER.round) for name, stamp in known.items()}
        latest = max(state.clock, heard.stamp.round)
        stamp = Stamp(max(heard.stamp.incarnation, state.stamp.incarnation) + 1, latest)
        return state._replace(node=node, said=said, stamp=stamp, clock=latest, known=known)

    def recall(self, state: AgentState, name: str) -> Letter | None:
        """What was last taken in of an in-neighbour; nothing if it has not been heard."""
        if name not in state.known:
            return None
        if self.peer.rebirth is None:
            return Letter(name, state.known[name], state.said)  # only its stamp matters
        message = self.peer.rebirth.recall(state.memories[name])
        if message.round < 0:
            return None
        return Letter(name, Stamp(state.known[name].incarnation, int(message.round)), message.content)

    def model(self, state: AgentState) -> Params:
        """The agent's model, in the floats in which it learns."""
        return jax.tree.map(lambda leaf, start: leaf.astype(start.dtype), self.program.read(state.node), self.start)

    def weight(self, state: AgentState) -> float:
        """Its y."""
        return float(self.peer.holds(state.node).y)


class _TakenIn(NamedTuple):
    gain: PyTree
    told: Waking


def _own_start(problem: Problem, common: Params, client: int) -> Params:
    """The model that a client begins with: the common one, or its own."""
    own = problem.clients.start_models
    if own is None:
        return jax.tree.map(np.asarray, common)
    check_start_models(own, common, problem.clients.total)
    return jax.tree.map(lambda rows, leaf: np.asarray(rows, leaf.dtype)[client], own, common)
