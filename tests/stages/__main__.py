"""`python -m tests.stages check|test`: runs the plan of that name. Exit status: 0, 1 where a stage failed, 130 after Ctrl-C."""

import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.stages.plan import PLANS
from tests.stages.record import cpu_seconds, read
from tests.stages.report import summary
from tests.stages.run import Run

FOLDER: Final = Path(__file__).parents[1] / "output" / "stages"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in PLANS:
        print(f"want one of {', '.join(PLANS)}", file=sys.stderr)
        return 2
    plan, folder = PLANS[arguments[0]], FOLDER / arguments[0]
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    run = Run(plan, folder=folder, tell=partial(print, flush=True))
    try:
        results = run.run()
    except KeyboardInterrupt:
        return 130
    records = {stage.name: found for stage in plan.stages if (found := read(run.records(stage)))}
    print(summary(results, records, seconds=time.monotonic() - began, cpu=cpu_seconds()))
    return 1 if any(result.state in {"failed", "not run"} for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
