"""The stages of `make check` and `make test`: what each needs, and which lane it runs in.

Lanes run side by side, the stages of one lane one after another. One lane mostly waits: it builds the real control plane and
drives it. The others compute, at a lower priority: they take the time that the first leaves. What promises times runs alone.
Deliberately absent: what a stage does. Each is a target of the Makefile.
"""

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
    """`waiting` and `computing` are lanes; `alone` follows when all of them are done, one stage at a time."""

    waiting: tuple[Stage, ...] = ()
    computing: tuple[tuple[Stage, ...], ...]
    alone: tuple[Stage, ...] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (*self.waiting, *(stage for lane in self.computing for stage in lane), *self.alone)


def _without_promtool(_environ: Mapping[str, str]) -> Reason | None:
    return None if promtool.find() else "promtool is not built; `make alerts` builds it (two minutes, once)"


def _without_chromium(environ: Mapping[str, str]) -> Reason | None:
    found = environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    return None if found else "there is no browser; apt-get install chromium, or set CHROMIUM=/path/to/it"


_STATIC: Final = (Stage(name="lint"), Stage(name="site"), Stage(name="types"))
_QUICK: Final = Stage(name="quick")

CHECK: Final = Plan(computing=((Stage(name="unit"),), _STATIC))
TEST: Final = Plan(
    waiting=(Stage(name="controlplane"),),
    computing=(
        (
            _QUICK,
            Stage(name="helm", needs=("controlplane",)),
            Stage(name="oracle-quick", needs=("controlplane",)),
            Stage(name="alerts", missing=_without_promtool),
            Stage(name="browser", missing=_without_chromium),
        ),
        (
            *_STATIC,
            Stage(name="packages"),
            Stage(name="promises-quick"),
            Stage(name="faults-quick"),
            Stage(name="fuzz-quick"),
            # Its figures say nothing at these sizes: it shows that the benchmarks work.
            Stage(name="bench-quick", needs=("controlplane",)),
        ),
    ),
    # Side by side with the others, or three tests at a time, binds are slow enough on two cores that promises about them were
    # missed.
    alone=(Stage(name="cluster", needs=("controlplane",)),),
)
PLANS: Final = {"check": CHECK, "test": TEST}


def missing(stage: Stage) -> Reason | None:
    """Why the stage cannot run on this machine, if it cannot."""
    return stage.missing(environ)
