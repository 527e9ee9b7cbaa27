"""The page of peers on this machine, from the status that each writes every second."""

from pathlib import Path

from idiolect.deploy.peers.local_network import peers_in
from idiolect.deploy.peers.peer_status import PeerStatus
from idiolect.watching.view import Figure, Table, View, ago

_CAPTION = (
    "The weight y of each peer, as seen since this page was first asked for. With what is on its way they add up to "
    "the number of peers."
)


class NetworkReader:
    """Reads the folder of `idiolect network up` again and again, and keeps the weights that it saw."""

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, dict[int, dict[str, float]]()

    def view(self) -> View:
        """What the page of a network shows."""
        peers = peers_in(self._path)
        told = {one.name: one for one in peers if one.told}
        lit, weight = sum(one.lives for one in peers), sum(one.told["y"] for one in told.values())
        if told:
            newest = max(one.told["round"] for one in told.values())
            self._seen[newest] = {one.name: one.told["y"] for one in told.values()} | {"": weight}
        status = f"{lit} of {len(peers)} peers live; y with peers {weight:.6f} of {len(peers)}, the rest is on its way"
        columns = ("peer", "state", "round", "y", "score", "last heard", "incarnation", "refused")
        table = Table("Peers", columns, [_row(one) for one in peers])
        state = "under way" if lit else "ended"
        return View(self._path.name, state, status, (), [table], [self._weights()] if told else [], not lit)

    def _weights(self) -> Figure:
        seen = sorted(self._seen.items())
        names = sorted({name for _, mine in seen for name in mine if name})
        line = {"type": "scatter", "mode": "lines"}
        data = [
            line | {"name": name, "x": [at for at, _ in seen], "y": [mine.get(name) for _, mine in seen]}
            for name in names
        ]
        layout = {"xaxis": {"title": {"text": "round"}}, "yaxis": {"title": {"text": "weight y"}}, "height": 400}
        return Figure("weights", "Where the mass is", _CAPTION, data, layout)


def _row(one: PeerStatus) -> list[str]:
    if not one.told:
        return [one.name, one.doing, "", "", "", "", "", ""]
    told = one.told
    scores = list(told["scores"].values())
    heard = ", ".join(f"{other} {ago(seconds)}" for other, seconds in one.silent.items())
    score, refused = f"{scores[-1]:.4f}" if scores else "", str(sum(told["refused"].values()))
    known = [str(told["round"]), f"{told['y']:.4f}", score, heard, str(told["incarnation"]), refused]
    return [one.name, one.doing, *known]
