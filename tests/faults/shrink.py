"""A failing run made smaller: fewer kinds of faults, a shorter storm, while it still breaks the same law."""

from collections.abc import Callable
from dataclasses import replace

from tests.faults.play import Result, Script
from tests.faults.provider_faults import FAULTS

#: Runs that are spent on it.
_MOST_RUNS = 40


def shrunk(script: Script, law: str, run: Callable[[Script], Result]) -> Script:
    """A script of the same seed that breaks the same law."""
    left = [_MOST_RUNS]

    def breaks(smaller: Script) -> bool:
        left[0] -= 1
        found = run(smaller).broken
        return found is not None and found.law == law

    for fault in FAULTS:
        smaller = replace(script, without=script.without | {fault})
        if left[0] > 0 and fault not in script.without and breaks(smaller):
            script = smaller
    while left[0] > 0 and script.seconds > 1:
        smaller = replace(script, seconds=round(script.seconds * 0.7, 1))
        if not breaks(smaller):
            break
        script = smaller
    return script
