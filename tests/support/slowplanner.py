"""`python -m tests.support.slowplanner FILE`: a planning process in which no plan goes on before the file is there.

A plan reads the clock at each of its steps and takes questions there. It stays in its first step, and takes questions all the
while.
"""

import sys
import time
from pathlib import Path

from slackwater.runtime.planner import __main__ as planner
from slackwater.runtime.planner.session import Session

_LOOK_EVERY_SECONDS = 0.01


def main() -> None:
    gate, clock = Path(sys.argv[1]), Session._clock

    def held(self: Session) -> float:
        while self._planning and not gate.exists():
            clock(self)
            time.sleep(_LOOK_EVERY_SECONDS)
        return clock(self)

    Session._clock = held  # type: ignore[method-assign]
    planner.main()


if __name__ == "__main__":
    main()
