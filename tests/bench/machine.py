"""The machine that the numbers come from."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.support.controlplane.recipe import GO_FILES, required_version

_CPU: Final = Path("/proc/cpuinfo")
_MEMORY: Final = Path("/proc/meminfo")


def described() -> dict[str, str | int | float]:
    """Cores that this process may use, memory, CPU model, versions, and the time now by the clock (UTC)."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memoryGiB": round(_kibibytes("MemTotal") / 2**20, 1),
        "cpu": next(_values(_CPU, "model name"), platform.machine()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "kubernetes": required_version((GO_FILES / "kubernetes" / "go.mod").read_text(), "k8s.io/kubernetes"),
        "finishedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def page(table: Iterable[str], context: Mapping[str, object]) -> str:
    """The lines of a table, with what its numbers come from above them."""
    return "\n".join([", ".join(f"{key} {value}" for key, value in context.items()), "", *table])


def _kibibytes(name: str) -> int:
    return int(next(_values(_MEMORY, name), "0 kB").split()[0])


def _values(file: Path, name: str) -> Iterator[str]:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            yield value.strip()
