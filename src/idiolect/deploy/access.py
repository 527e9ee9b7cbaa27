"""Who may say what to whom: TLS with certificates on both sides, and rules that deny what they do not allow.

Zenoh does not tell a queryable or a subscriber whose message it has. So the rules bind keys to certificates: a machine
may speak on the keys that have its name in them, and on no others. What is denied is dropped before it is seen.
Nobody is searched for: endpoints are given, multicast and gossip are off.
"""

import ipaddress
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from idiolect.deploy.keys import Identity
from idiolect.deploy.roster import Roster
from idiolect.errors import UserMistake

if TYPE_CHECKING:
    from zenoh import Config

MESSAGE_BYTES = 4 * 2**20  # longer ones are dropped on arrival; what is larger travels in chunks
_ENDPOINT = re.compile(r"(tls|tcp|udp)/(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")
_CONNECTED = 20_000  # sessions at a time
_PATIENCE = 10_000  # milliseconds in which a device must have connected
_LEASE = 20_000  # milliseconds of silence after which a link is taken for dead


class Grant(NamedTuple):
    """What a machine may do: kinds of Zenoh's messages, on keys. `ingress` comes from it, `egress` goes to it."""

    name: str
    flow: Literal["ingress", "egress"]
    messages: tuple[str, ...]
    keys: tuple[str, ...]


def needs_zenoh() -> Any:
    """Zenoh, or one sentence."""
    try:
        import zenoh
    except ModuleNotFoundError:
        raise UserMistake("real devices need Zenoh; pip install 'idiolect[zenoh]'") from None
    return zenoh


def checked_endpoint(endpoint: str, *, insecure: bool = False) -> str:
    """An endpoint such as tls/192.0.2.7:7447; without TLS only on this machine, and only if that is asked for."""
    found = _ENDPOINT.fullmatch(endpoint)
    if not found or not 0 < int(found[3]) < 2**16:
        raise UserMistake(f"endpoint is '{endpoint}', but must be like tls/192.0.2.7:7447 or tls/example.org:7447")
    kind, host = found[1], found[2].strip("[]")
    if kind == "tls" and insecure:
        raise UserMistake(f"endpoint is '{endpoint}', but --insecure is for tcp/ on this machine; leave it out")
    if kind != "tls" and not insecure:
        raise UserMistake(f"endpoint is '{endpoint}', without TLS; take tls/, or --insecure for trials on this machine")
    if kind != "tls" and not _is_loopback(host):
        raise UserMistake(f"endpoint is '{endpoint}', but --insecure is only taken on this machine: tcp/127.0.0.1:7447")
    return endpoint


def server_config(identity: Identity | None, roster: Roster, listen: str, run: str) -> "Config":
    """A server that devices ask: each may query the keys `idiolect/run/its-name/*`, and hears what is replied to it."""
    grants = []
    for name in roster.names:
        mine = (f"idiolect/{run}/{name}/*", f"idiolect/hello/{name}")
        grants.append(Grant(name, "ingress", ("query",), mine))
        grants.append(Grant(name, "egress", ("reply",), mine))
        grants.append(Grant(name, "egress", ("declare_queryable",), (f"idiolect/{run}/*/*", "idiolect/hello/*")))
    return _config("router", identity, {"listen": {"endpoints": [listen]}}, _rules(grants, roster))


def device_config(identity: Identity | None, connect: str, name: str) -> "Config":
    """A device that asks a server, and answers nobody.

    To open a session with it fails after a while if nobody lets the device in; once open, it connects again by itself.
    """
    mine = (f"idiolect/*/{name}/*", f"idiolect/hello/{name}")
    known = ("idiolect/*/*/*", "idiolect/hello/*")
    grants = [
        Grant("", "egress", ("query",), mine),
        Grant("", "ingress", ("reply",), mine),
        Grant("", "ingress", ("declare_queryable",), known),
    ]
    again = {"period_init_ms": 200, "period_max_ms": 2000, "period_increase_factor": 1.5}
    where = {"connect": {"endpoints": [connect], "timeout_ms": _PATIENCE, "exit_on_failure": True, "retry": again}}
    return _config("client", identity, where, _rules(grants, None))


def peer_config(
    identity: Identity | None, roster: Roster, listen: Sequence[str], connect: Sequence[str], grants: Sequence[Grant]
) -> "Config":
    """A peer among others, each of which may do what the grants say and nothing else."""
    where = {
        "listen": {"endpoints": list(listen)},
        "connect": {"endpoints": list(connect), "timeout_ms": -1, "exit_on_failure": False},
    }
    return _config("peer", identity, where, _rules(grants, roster))


def _config(mode: str, identity: Identity | None, where: dict[str, Any], rules: dict[str, Any]) -> "Config":
    """Without an identity there is no TLS, and nobody can be told from anybody else."""
    sizes = {"flows": ["ingress"], "messages": ["query", "reply", "put", "delete"], "key_exprs": ["**"]}
    link: dict[str, Any] = {"protocols": ["tcp", "udp"]}
    if identity is not None:
        link = {"protocols": ["tls"], "tls": _tls(identity)}
    link["tx"] = {"lease": _LEASE}
    settings = {
        "mode": mode,
        **where,
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "adminspace": {"enabled": False},
        "transport": {
            "link": link,
            "unicast": {"max_sessions": _CONNECTED, "accept_pending": 1000},
            # By default 16 MB for every session, on both sides; and what TLS protects would lie there for all to see.
            "shared_memory": {"enabled": False},
        },
        "low_pass_filter": [{"id": "size", "size_limit": MESSAGE_BYTES, **sizes}],
        **({} if identity is None else {"access_control": rules}),
    }
    config: Config = needs_zenoh().Config.from_json5(json.dumps(settings))
    return config


def _tls(identity: Identity) -> dict[str, Any]:
    return {
        "root_ca_certificate": str(identity.ca.resolve()),
        "listen_private_key": str(identity.key.resolve()),
        "listen_certificate": str(identity.cert.resolve()),
        "connect_private_key": str(identity.key.resolve()),
        "connect_certificate": str(identity.cert.resolve()),
        "enable_mtls": True,
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
    }


def _rules(grants: Sequence[Grant], roster: Roster | None) -> dict[str, Any]:
    """What is not granted is denied. Without a roster, a grant is for whoever is at the other end."""
    rules = [
        {
            "id": f"rule{place}",
            "permission": "allow",
            "flows": [grant.flow],
            "messages": list(grant.messages),
            "key_exprs": list(grant.keys),
        }
        for place, grant in enumerate(grants)
    ]
    names = list(dict.fromkeys(grant.name for grant in grants))
    known = {name: {} if roster is None else {"cert_common_names": roster.common_names(name)} for name in names}
    # A subject without common names would be everybody.
    known = {name: subject for name, subject in known.items() if roster is None or subject["cert_common_names"]}
    policies = [
        {"subjects": [name or "all"], "rules": [f"rule{place}" for place, g in enumerate(grants) if g.name == name]}
        for name in known
    ]
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [{"id": name or "all", **subject} for name, subject in known.items()],
        "policies": policies,
    }


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
