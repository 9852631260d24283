"""Defines the paths of a control plane's files."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The paths of a control plane's files, under one folder."""

    root: Path

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def etcd_data(self) -> Path:
        return self.root / "etcd"

    @property
    def audit_policy(self) -> Path:
        return self.root / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    @property
    def tokens(self) -> Path:
        return self.root / "tokens.csv"

    def kubeconfig(self, account: str) -> Path:
        return self.root / "kubeconfigs" / f"{account}.yaml"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def scheduler_config(self, component: str) -> Path:
        return self.root / f"{component}-config.yaml"

    def make(self) -> None:
        """Creates the folders."""
        for folder in (self.root, self.pki, self.logs, self.kubeconfig("any").parent):
            folder.mkdir(parents=True, exist_ok=True)
