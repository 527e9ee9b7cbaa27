"""X.509 certificates on the P-256 curve, made and read with `cryptography`."""

import datetime as dt
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.errors import UserMistake
from idiolect.files import read_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

_SKEW = dt.timedelta(hours=24)  # clocks of devices may be behind by so much


def needs_cryptography() -> None:
    """Say what is missing, if it is."""
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:
        raise UserMistake("keys need cryptography; pip install 'idiolect[zenoh]'") from None


def new_key() -> "EllipticCurvePrivateKey":
    """A private key."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def key_text(key: "EllipticCurvePrivateKey") -> bytes:
    """A private key as PEM."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def load_key(path: Path) -> "EllipticCurvePrivateKey":
    """A private key from its file."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    content = read_whole(path, "key")
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError):
        raise UserMistake(f"key {path} is no private key (PEM)") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserMistake(f"key {path} is no key of an elliptic curve, as `idiolect keys` makes them")
    return key


def load_certificate(path: Path) -> "Certificate":
    """A certificate from its file."""
    from cryptography import x509

    content = read_whole(path, "certificate")
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError:
        raise UserMistake(f"certificate {path} is no certificate (PEM)") from None


def authority_certificate(key: "EllipticCurvePrivateKey", days: int) -> bytes:
    """The certificate of an authority, signed by itself."""
    from cryptography import x509

    name = _named("idiolect authority")
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)  # to sign certificates
    made = _begun(name, name, key, days)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(usage, critical=True)
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _signed(made, key)


def machine_certificate(
    common_name: str,
    key: "EllipticCurvePrivateKey",
    hosts: Sequence[str],
    days: int,
    authority: "Certificate",
    signing: "EllipticCurvePrivateKey",
) -> bytes:
    """A certificate to connect with and, if it has hosts, to listen with there."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
    known_as = [_host(host) for host in hosts] or [x509.DNSName(f"{common_name}.invalid")]
    made = _begun(_named(common_name), authority.subject, key, days)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    made = made.add_extension(x509.SubjectAlternativeName(known_as), critical=False)
    return _signed(made, signing)


def common_name_of(certificate: "Certificate") -> str:
    """Whose it is."""
    from cryptography.x509.oid import NameOID

    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def now() -> dt.datetime:
    """The time, in whole seconds."""
    return dt.datetime.now(dt.UTC).replace(microsecond=0)


def _named(name: str) -> Any:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _begun(subject: Any, issuer: Any, key: "EllipticCurvePrivateKey", days: int) -> Any:
    from cryptography import x509

    if days < 1:
        raise UserMistake(f"days is {days}, but a certificate must last at least a day")
    begun = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    lasting = begun.not_valid_before(now() - _SKEW).not_valid_after(now() + dt.timedelta(days=days))
    return lasting.serial_number(x509.random_serial_number())


def _host(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?", host):
        raise UserMistake(f"host is '{host}', but must be an address or a name, such as 192.0.2.7 or learn.example.org")
    return x509.DNSName(host)


def _signed(made: Any, key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import hashes, serialization

    signed: bytes = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return signed
