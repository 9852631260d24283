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
from typing import Any, Final

from tests.alerts import program as promtool
from tests.bench.karpenter import program as karpenter

Reason = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One target of the Makefile. `make` has the target and its variables, if the target is not the name alone. `missing` gives
    the reason why the stage cannot run here, if there is one."""

    name: str
    make: tuple[str, ...] = ()
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
    return None if promtool.find() else "promtool is not built; `make test TESTS=tests/alerts` builds it (two minutes, once)"


def _without_chromium(environ: Mapping[str, str]) -> Reason | None:
    found = environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    return None if found else "there is no browser; apt-get install chromium, or set CHROMIUM=/path/to/it"


def _without_karpenter(_environ: Mapping[str, str]) -> Reason | None:
    return None if karpenter.find() else "Karpenter is not built; `make test TESTS=tests/karpenter` builds it (minutes, once)"


def _without_podman(environ: Mapping[str, str]) -> Reason | None:
    # Both use subordinate user ids where they do not run as root.
    wanted = ("mmdebstrap", "podman", *(() if os.geteuid() == 0 else ("newuidmap",)))
    absent = [name for name in wanted if shutil.which(name, path=environ.get("PATH")) is None]
    return f"there is no {' and no '.join(absent)}; apt-get install mmdebstrap podman runc uidmap" if absent else None


def _tests(name: str, arguments: str = "", **more: Any) -> Stage:
    """The tests of one folder."""
    return Stage(name=name, make=("test", f"TESTS={arguments}tests/{name}"), **more)


_STATIC: Final = (Stage(name="lint"), Stage(name="site"))
#: Measures, where the others test.
BENCHES: Final = "bench"

CHECK: Final = Plan(computing=((Stage(name="unit"),), _STATIC))
TEST: Final = Plan(
    waiting=(Stage(name="controlplane"), Stage(name="cluster", needs=("controlplane",))),
    computing=(
        (
            Stage(name="unit", make=("unit", "SLOW=1")),
            _tests("oracle", needs=("controlplane",)),
            # After the stage `helm`, which builds helm.
            _tests("image", needs=("controlplane",), missing=_without_podman),
            _tests("alerts", missing=_without_promtool),
            _tests("karpenter", needs=("controlplane",), missing=_without_karpenter),
        ),
        (
            *_STATIC,
            _tests("packaging"),
            _tests("slos", "-s -n 2 "),
            Stage(name="faults", make=("faults", "QUICK=1")),
            _tests("fuzz"),
            # Its figures say nothing at these sizes: it shows that the benchmarks work.
            Stage(name=BENCHES, make=("bench", "QUICK=1"), needs=("controlplane",)),
            _tests("helm", needs=("controlplane",)),
            Stage(name="browser", missing=_without_chromium),
        ),
    ),
)
PLANS: Final = {"check": CHECK, "test": TEST}


def missing(stage: Stage) -> Reason | None:
    """Why the stage cannot run on this machine, if it cannot."""
    return stage.missing(environ)
