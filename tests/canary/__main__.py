"""`python -m tests.canary --kubernetes 1.37.3`: what this version of Kubernetes does otherwise than the newest recorded one.

Builds the version's control plane and oracle from Go modules, also of a patch release or an alpha that nobody here has seen.
Then compares our rules with its plug-ins on a few hundred clusters, and what its kube-scheduler asks an extender with the
recording of an earlier version. Exit status: 0 if nothing changed, 1 if something did, 2 if it could not be built.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

import anyio

from slackwater.app.offline.version import VersionRequest
from slackwater.model.kubernetes_rules import KubernetesVersion
from tests.canary.report import changes, golden, newest_before, recording_of, write
from tests.canary.scenes import play
from tests.oracle.campaign import run
from tests.oracle.ours import side
from tests.oracle.program import build as build_oracle
from tests.oracle.real import Mode
from tests.support.controlplane.build import build as build_control_plane
from tests.support.controlplane.errors import ControlPlaneError
from tests.support.controlplane.progress import shown_on
from tests.support.controlplane.recipe import version_of

_MODES: Sequence[Mode] = ("placement", "sequential", "scores")


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    asked = _parser().parse_args(arguments)
    version = asked.kubernetes.removeprefix("v")
    try:
        found = [*_rules(version, asked.clusters), *_calls(version, asked.against, record=asked.record)]
    except ControlPlaneError as err:
        print(err, file=sys.stderr)
        return 2
    print(f"\nKubernetes {version}: {len(found)} changes" if found else f"\nKubernetes {version}: nothing changed")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.canary", description=__doc__)
    parser.add_argument("--kubernetes", metavar="X", default=version_of(), help="version to look at (default: the recipe's)")
    parser.add_argument("--against", metavar="X", help="compare with this version's recording (default: the newest before)")
    parser.add_argument("--clusters", type=int, default=200, metavar="N", help="for each mode of the oracle; 0 leaves it out")
    parser.add_argument("--record", action="store_true", help="also keep the recording as this version's golden one")
    return parser


def _rules(version: str, clusters: int) -> Iterator[str]:
    """Differences between our rules and the version's own plug-ins."""
    if not clusters:
        return
    known = KubernetesVersion.parse(version)
    print(f"rules: {known.note or f'those of {known}'}", flush=True)
    program, request = build_oracle(version), VersionRequest(version=known)
    for mode in _MODES:
        outcome = run(program, mode=mode, seed=1, indices=range(clusters), ours=side(mode, request), kinds=5)
        print(f"  {mode}: {outcome.differing} of {clusters} clusters differ", flush=True)
        for failure in outcome.failures.values():
            line = f"{mode}, cluster {failure.index}: {failure.first}"
            print(f"    {line}")
            yield line


def _calls(version: str, against: str | None, *, record: bool) -> Iterator[str]:
    """Differences between what two versions of kube-scheduler ask an extender."""
    with shown_on(sys.stderr) as progress:
        binaries = build_control_plane(progress, kubernetes=version)
    now = recording_of(version, anyio.run(play, binaries))
    for pod, calls in now.sequences.items():
        print(f"calls about a {pod} pod: {' -> '.join(calls)}")
    if record:
        print(f"recorded in {write(now)}")
    before = against or newest_before(version)
    if before is None:
        print("no earlier version is recorded to compare with")
        return
    found = changes(golden(before), now)
    print(f"compared with {before}: {len(found)} differences" if found else f"compared with {before}: the same")
    for line in found:
        print(f"  {line}")
        yield line


if __name__ == "__main__":
    sys.exit(main())
