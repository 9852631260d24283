"""How many examples each test tries, and how long it may take."""

import os
from typing import Final

from hypothesis import HealthCheck, settings

CASES: Final = int(os.environ.get("SLACKWATER_FUZZ_CASES", "10"))

#: Hypothesis' own clock is of no use where a process answers and the machine has other things to do.
tried: Final = settings(
    max_examples=CASES,
    deadline=None,
    derandomize="SLACKWATER_FUZZ_CASES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
