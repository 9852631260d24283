"""Creates the keys and certificates of one control plane: a CA, one serving certificate, and the key pair of service accounts.

Users have tokens, so there are no client certificates. The CA's key is never written, so nothing else can be signed later.
Also creates the users of the API server, with their tokens and kubeconfig files.
"""

import base64
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID: Final = timedelta(days=365)
#: Certificates are valid from this long before `now`, because the clocks of containers and hosts differ a little.
_SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pki:
    """The paths of the PEM files, which only their owner can read."""

    ca_file: Path
    serving_cert: Path  #: for 127.0.0.1, ::1 and localhost; used by every component that serves HTTPS
    serving_key: Path
    account_key: Path  #: signs service-account tokens
    account_public_key: Path


def make_pki(folder: Path, *, now: datetime) -> Pki:
    """Writes a new PKI into `folder`, which is created if missing. Valid for a year from `now`, which is timezone-aware."""
    folder.mkdir(parents=True, exist_ok=True)
    pki = Pki(
        ca_file=folder / "ca.crt",
        serving_cert=folder / "serving.crt",
        serving_key=folder / "serving.key",
        account_key=folder / "service-accounts.key",
        account_public_key=folder / "service-accounts.pub",
    )
    ca_key, serving_key, account_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    ca = _ca_certificate(ca_key, now)
    write_private(pki.ca_file, _pem(ca))
    write_private(pki.serving_cert, _pem(_serving_certificate(serving_key, ca, ca_key, now)))
    write_private(pki.serving_key, _private_pem(serving_key))
    write_private(pki.account_key, _private_pem(account_key))
    write_private(
        pki.account_public_key,
        account_key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )
    return pki


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, from its creation on. Replaces an existing file."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _ca_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "slackwater control plane")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _serving_certificate(
    key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    addresses = [x509.IPAddress(ip_address(text)) for text in ("127.0.0.1", "::1")]
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), *addresses])
    return (
        _builder(name, ca.subject, key.public_key(), now)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


_MASTERS: Final = ("system:masters",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiUser:
    """One user of the API server."""

    name: str  #: its name in this package, and of its kubeconfig file
    user: str  #: its name in RBAC and in the audit log
    groups: tuple[str, ...] = ()
    token: str = field(repr=False)


def make_accounts() -> dict[str, ApiUser]:
    """The accounts by name, with new tokens.

    `scheduler` has the rights of Kubernetes' default RBAC. `slackwater` has none, because tests and the demo create its roles.
    The controller manager and KWOK act for many users, so they have all rights.
    """
    users: dict[str, tuple[str, tuple[str, ...]]] = {
        "admin": ("admin", _MASTERS),
        "scheduler": ("system:kube-scheduler", ()),
        "controller-manager": ("system:kube-controller-manager", _MASTERS),
        "kwok": ("kwok", _MASTERS),
        "slackwater": ("slackwater", ()),
    }
    return {
        name: ApiUser(name=name, user=user, groups=groups, token=secrets.token_hex(16))
        for name, (user, groups) in users.items()
    }


def write_token_file(path: Path, accounts: Sequence[ApiUser]) -> None:
    """Writes the file for kube-apiserver's --token-auth-file."""
    write_private(path, "".join(_token_line(account) for account in accounts).encode())


def _token_line(account: ApiUser) -> str:
    # An empty fourth column would make the user a member of a group named "".
    groups = f',"{",".join(account.groups)}"' if account.groups else ""
    return f"{account.token},{account.user},{account.name}{groups}\n"


def write_kubeconfig(path: Path, account: ApiUser, *, server: str, ca_file: Path) -> None:
    """Writes a kubeconfig that needs no other file."""
    ca = base64.b64encode(ca_file.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "slackwater", "cluster": {"server": server, "certificate-authority-data": ca}}],
        "users": [{"name": account.name, "user": {"token": account.token}}],
        "contexts": [{"name": account.name, "context": {"cluster": "slackwater", "user": account.name}}],
        "current-context": account.name,
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
