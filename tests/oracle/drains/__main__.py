"""`python -m tests.oracle.drains --clusters N --seed S`: our scale-down plans before kube-scheduler's plug-ins.

Exit status: 0 where every pod of every plan fits; 1 with what did not, the smallest such cluster and how to replay it.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.oracle.drains.clusters import generate_drainable
from tests.oracle.drains.law import StatusSources, answer_of, settings, violations
from tests.oracle.generator.draw import Obj
from tests.oracle.program import build
from tests.oracle.real import OracleFailed, running
from tests.oracle.shrink import smallest
from tests.support.controlplane.errors import ControlPlaneError

_EVERY = 500


def check(program: Path, *, seed: int, indices: Iterable[int], tell: bool = False) -> StatusSources:
    """Plans and carries out the clusters of `indices`; stops at the first whose plan is wrong."""
    reported, policy = StatusSources(), settings()
    with running(program, "replay") as real:
        for index in indices:
            cluster = generate_drainable(seed, index)
            answer = answer_of(cluster, policy)
            found = [f"cluster {index}: {problem}" for problem in violations(real, cluster, answer)]
            reported.add(answer, cluster, found)
            if tell and reported.clusters % _EVERY == 0:
                print(f"{reported.clusters:,} clusters", file=sys.stderr)
            if found:
                break
    return reported


def shrunk(program: Path, cluster: Obj) -> Obj:
    """The smallest part of a cluster whose plan is still wrong, and that an API server would hold."""
    policy = settings()
    with running(program, "replay") as real, running(program, validate=True) as court:

        def still_wrong(fewer: Obj) -> bool:
            try:
                if any("invalid" in line for line in court.judge(fewer)):
                    return False
                return any(violations(real, fewer, answer_of(fewer, policy)))
            except (OracleFailed, ValueError, KeyError, TypeError):
                return False

        return smallest(cluster, still_wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.drains", description=__doc__)
    parser.add_argument("--clusters", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first cluster, to replay one")
    asked = parser.parse_args(arguments)
    try:
        program = build()
    except ControlPlaneError as err:
        print(err, file=sys.stderr)
        return 1
    indices = range(asked.first, asked.first + asked.clusters)
    reported = check(program, seed=asked.seed, indices=indices, tell=True)
    print(reported.table())
    if not reported.problems:
        return 0
    print("\n".join(reported.problems), file=sys.stderr)
    failed = asked.first + reported.clusters - 1
    print("shrinking ...", flush=True)
    print(json.dumps(shrunk(program, generate_drainable(asked.seed, failed)), indent=1))
    print(f"replay: python -m tests.oracle.drains --seed {asked.seed} --first {failed} --clusters 1")
    return 1


if __name__ == "__main__":
    sys.exit(main())
