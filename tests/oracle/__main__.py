"""`python -m tests.oracle --clusters N --seed S [--sequential|--scores] [--kubernetes X]`: our predicates against
kube-scheduler's own, of the default version of Kubernetes or another.

Exit status: 0 without a difference; 1 with one, or where the clusters exercised too little: the smallest failing cluster
and how to replay it are printed; 130 after Ctrl-C.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from slackwater.app.offline.version import VersionRequest
from slackwater.model.kubernetes_rules import KubernetesVersion, read_gates
from tests.oracle.campaign import Failure, Ours, Outcome, run, shrunk
from tests.oracle.generator import SMALL, Size
from tests.oracle.generator.versions import device_limits
from tests.oracle.ours import side
from tests.oracle.program import build
from tests.oracle.real import Mode, OracleFailed
from tests.support.controlplane.errors import ControlPlaneError
from tests.support.controlplane.recipe import version_of

_EVERY = 500


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    asked = _parser().parse_args(arguments)
    mode: Mode = "sequential" if asked.sequential else "scores" if asked.scores else "placement"
    gates = read_gates(asked.feature_gates)
    version = KubernetesVersion.parse(asked.kubernetes or version_of(), gates)
    ours = None if asked.real_only else side(mode, VersionRequest(version=version))
    try:
        program = build(asked.kubernetes)
        indices = range(asked.first, asked.first + asked.clusters)
        outcome = run(
            program,
            mode=mode,
            seed=asked.seed,
            indices=indices,
            ours=ours,
            size=_size(asked, version),
            kinds=asked.kinds,
            tell=_progress(indices),
            gates=gates,
        )
        wrong = _differences(program, outcome, asked, mode, ours) if ours else 0
    except (ControlPlaneError, OracleFailed) as err:
        print(err, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    event_counts = outcome.scores if mode == "scores" else outcome.event_counts
    if event_counts.clusters:
        print(event_counts.table())
    problems = [] if wrong or asked.any_amount else list(event_counts.problems(version))
    for problem in problems:
        print(problem, file=sys.stderr)
    judged = f"Kubernetes {version}{' ' + asked.feature_gates if gates else ''}, {mode}"
    print(
        f"{asked.clusters:,} clusters of seed {asked.seed}, {judged}: {outcome.differing} differ, {outcome.left_out} left out"
    )
    return 1 if wrong or problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--clusters", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first cluster, to replay one")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--sequential", action="store_true", help="each pod on the first feasible node before the next")
    modes.add_argument("--scores", action="store_true", help="the score plug-ins instead")
    parser.add_argument("--kubernetes", metavar="X", help="version of Kubernetes, for example 1.35.4 (default: the recipe's)")
    parser.add_argument("--feature-gates", metavar="G", default="", help="Name=true,Name=false")
    parser.add_argument("--any-amount", action="store_true", help="do not ask how often each plug-in and reason occurred")
    parser.add_argument("--nodes", type=int, metavar="N", help="exactly so many in each cluster; only together with --pods")
    parser.add_argument("--pods", type=int, metavar="N")
    parser.add_argument("--devices", action="store_true", help="clusters with devices and claims of them")
    parser.add_argument("--selectors", action="store_true", help="only random CEL selectors; refused ones are left out")
    parser.add_argument("--mutated", action="store_true", help="change each cluster at random; invalid ones are left out")
    parser.add_argument("--kinds", type=int, default=1, metavar="K", help="stop after K kinds of differences")
    parser.add_argument("--into", type=Path, metavar="DIR", help="also write each smallest failing cluster there")
    parser.add_argument("--real-only", action="store_true", help="only count what the real plug-ins say")
    return parser


def _size(asked: argparse.Namespace, version: KubernetesVersion) -> Size:
    size = Size.exactly(nodes=asked.nodes, pods=asked.pods) if asked.nodes and asked.pods else SMALL
    limits = device_limits(version)
    return replace(size, mutated=asked.mutated, devices=asked.devices, selectors=asked.selectors, device_limits=limits)


def _differences(program: Path, outcome: Outcome, asked: argparse.Namespace, mode: Mode, ours: Ours) -> int:
    for number, failure in enumerate(outcome.failures.values()):
        print(f"\ncluster {failure.index}: {failure.first}\nshrinking ...", flush=True)
        small = shrunk(program, failure, mode=mode, ours=ours, gates=read_gates(asked.feature_gates))
        text = json.dumps(small.cluster, indent=1)
        print(f"smallest cluster that differs so:\n{text}\n{small.first}")
        option = "" if mode == "placement" else f" --{mode}"
        option += " --mutated" if asked.mutated else ""
        option += " --selectors" if asked.selectors else ""
        option += f" --kubernetes {asked.kubernetes}" if asked.kubernetes else ""
        option += f" --feature-gates {asked.feature_gates}" if asked.feature_gates else ""
        option += " --devices" if asked.devices else ""
        option += f" --nodes {asked.nodes} --pods {asked.pods}" if asked.nodes and asked.pods else ""
        print(f"replay: python -m tests.oracle --seed {asked.seed} --first {failure.index} --clusters 1{option}")
        if asked.into:
            asked.into.mkdir(parents=True, exist_ok=True)
            (asked.into / f"{number:03}-{_slug(small)}.json").write_text(text)
    return len(outcome.failures)


def _slug(failure: Failure) -> str:
    return "-".join(part for part in failure.first.kind if part).replace(" ", "-")


def _progress(indices: range) -> Callable[[int], None]:
    def tell(index: int) -> None:
        done = index - indices.start + 1
        if done % _EVERY == 0 or done == len(indices):
            end = "\r" if sys.stderr.isatty() and done < len(indices) else "\n"
            print(f"{done:,} of {len(indices):,} clusters", file=sys.stderr, end=end, flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main())
