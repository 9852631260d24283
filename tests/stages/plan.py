"""The stages of `make check` and `make test`: what each needs, and which lane it runs in.

Lanes run side by side, the stages of one lane one after another. One lane mostly waits: it builds the real control plane and
drives it. The others compute, at a lower priority: they take the time that the first leaves, and cost it next to none.
Deliberately absent: what a stage does. Each is a target of the Makefile.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import environ
from typing import Final

from tests.alerts import program as promtool

Reason = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One target of the Makefile. `missing` gives the reason why it cannot run here, if there is one."""

    name: str
    needs: tuple[str, ...] = ()
    missing: Callable[[Mapping[str, str]], Reason | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`waiting` and each of `computing` are lanes."""

    waiting: tuple[Stage, ...] = ()
    computing: tuple[tuple[Stage, ...], ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (*self.waiting, *(stage for lane in self.computing for stage in lane))


def _without_promtool(_environ: Mapping[str, str]) -> Reason | None:
    return None if promtool.find() else "promtool is not built; `make alerts` builds it (two minutes, once)"


def _without_chromium(environ: Mapping[str, str]) -> Reason | None:
    found = environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    return None if found else "there is no browser; apt-get install chromium, or set CHROMIUM=/path/to/it"


def _without_podman(environ: Mapping[str, str]) -> Reason | None:
    # Both use subordinate user ids where they do not run as root.
    wanted = ("mmdebstrap", "podman", *(() if os.geteuid() == 0 else ("newuidmap",)))
    absent = [name for name in wanted if shutil.which(name, path=environ.get("PATH")) is None]
    return f"there is no {' and no '.join(absent)}; apt-get install mmdebstrap podman runc uidmap" if absent else None


_STATIC: Final = (Stage(name="lint"), Stage(name="site"), Stage(name="types"))
_QUICK: Final = Stage(name="quick")
#: Measures, where the others test.
BENCHES: Final = "bench-quick"

CHECK: Final = Plan(computing=((Stage(name="unit"),), _STATIC))
TEST: Final = Plan(
    waiting=(Stage(name="controlplane"), Stage(name="cluster", needs=("controlplane",))),
    computing=(
        (
            _QUICK,
            Stage(name="oracle-quick", needs=("controlplane",)),
            # After the stage `helm`, which builds helm.
            Stage(name="image-test", needs=("controlplane",), missing=_without_podman),
            Stage(name="alerts", missing=_without_promtool),
        ),
        (
            *_STATIC,
            Stage(name="packages"),
            Stage(name="slos-quick"),
            Stage(name="faults-quick"),
            Stage(name="fuzz-quick"),
            # Its figures say nothing at these sizes: it shows that the benchmarks work.
            Stage(name=BENCHES, needs=("controlplane",)),
            Stage(name="helm", needs=("controlplane",)),
            Stage(name="browser", missing=_without_chromium),
        ),
    ),
)
PLANS: Final = {"check": CHECK, "test": TEST}


def missing(stage: Stage) -> Reason | None:
    """Why the stage cannot run on this machine, if it cannot."""
    return stage.missing(environ)
