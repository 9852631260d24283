"""Who may talk to the API server, known by token; and a kubeconfig file for each."""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from slackwater.sandbox.controlplane.pki import write_private

_MASTERS: Final = ("system:masters",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One user of the API server."""

    name: str  #: what this package calls it, and its kubeconfig file
    user: str  #: what the API server calls it, in RBAC and in the audit log
    groups: tuple[str, ...] = ()
    token: str = field(repr=False)


def make_accounts() -> dict[str, Account]:
    """The accounts by name, with new tokens.

    `scheduler` has the rights that Kubernetes' default RBAC gives that user; `slackwater` has none: tests apply our
    own ClusterRole. The controller manager and KWOK play many users each, so they may do everything.
    """
    users: dict[str, tuple[str, tuple[str, ...]]] = {
        "admin": ("admin", _MASTERS),
        "scheduler": ("system:kube-scheduler", ()),
        "controller-manager": ("system:kube-controller-manager", _MASTERS),
        "kwok": ("kwok", _MASTERS),
        "slackwater": ("slackwater", ()),
    }
    return {
        name: Account(name=name, user=user, groups=groups, token=secrets.token_hex(16))
        for name, (user, groups) in users.items()
    }


def write_token_file(path: Path, accounts: Sequence[Account]) -> None:
    """Writes the file that kube-apiserver reads with --token-auth-file."""
    write_private(path, "".join(_token_line(account) for account in accounts).encode())


def _token_line(account: Account) -> str:
    # An empty fourth column would make the user a member of a group named "".
    groups = f',"{",".join(account.groups)}"' if account.groups else ""
    return f"{account.token},{account.user},{account.name}{groups}\n"


def write_kubeconfig(path: Path, account: Account, *, server: str, ca_file: Path) -> None:
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
