"""As much of Ray as the pool uses, in this process: actors that work when they are asked, and die when told to."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class NodeDiedError(RayError):
    pass


class GetTimeoutError(RayError, TimeoutError):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Ref:
    """Something that will be there."""

    def __init__(self, get: Callable[[], Any]) -> None:
        self.get = get


class Actor:
    """The object of a class, and whether it lives."""

    def __init__(self, ray: "PretendedRay", thing: Any) -> None:
        self.ray, self.thing, self.alive, self.frozen, self.asked = ray, thing, True, False, 0

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: Ref(lambda: self.call(name, arguments)))

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.ray.calls.append((name, *arguments[:4]))
        if self.alive and self.ray.dies(len(self.ray.calls)):
            self.alive = False
        if self.alive and self.ray.freezes(len(self.ray.calls)):
            self.frozen = True
        self.asked += 1
        if self.alive and (self.frozen or self.asked < self.ray.slow):
            raise GetTimeoutError("Get timed out")
        if not self.alive:
            raise self.ray.death("The actor died unexpectedly.\nAnd more.")
        try:
            return getattr(self.thing, name)(*[ref.get() if isinstance(ref, Ref) else ref for ref in arguments])
        except Exception as cause:
            raise RayTaskError(cause) from cause


class PretendedRay:
    """The module. `dies` says at which call an actor dies, by which `death`, and `freezes` when it falls silent.

    A `slow` actor must be asked so often before it gives its first answer.
    """

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError, GetTimeoutError=GetTimeoutError)

    def __init__(
        self,
        dies: Callable[[int], bool] = lambda call: False,
        freezes: Callable[[int], bool] = lambda call: False,
        death: type[RayError] = RayActorError,
        slow: int = 0,
    ) -> None:
        self.freezes, self.death, self.slow = freezes, death, slow
        self.dies, self.calls, self.actors, self.puts = dies, list[Any](), list[Actor](), 0

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}

    def remote(self, kind: type) -> Any:
        def create(*arguments: Any) -> Actor:
            self.actors.append(Actor(self, kind(*arguments)))
            return self.actors[-1]

        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=create))

    def put(self, value: Any) -> Ref:
        self.puts += 1
        return Ref(lambda: value)

    def get(self, ref: Ref, timeout: float | None = None) -> Any:
        return ref.get()

    def wait(self, refs: list[Ref], **options: Any) -> tuple[list[Ref], list[Ref]]:
        return refs[:1], refs[1:]

    def kill(self, actor: Actor) -> None:
        actor.alive = False
