"""Every supported version of Kubernetes besides the default one: our rules for it say what its own plug-ins say.

Such a program takes minutes to compile from a cold Go cache, so a version is only compared where its program is built already:
`python -m tests.oracle --kubernetes 1.35.4` builds it and compares thousands of clusters.
"""

from pathlib import Path

import pytest

from slackwater.app.offline.version import VersionRequest
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, SUPPORTED, KubernetesVersion
from tests.oracle.campaign import run
from tests.oracle.generator import Size
from tests.oracle.generator.versions import device_limits
from tests.oracle.ours import side
from tests.oracle.program import find
from tests.oracle.real import Mode
from tests.support.controlplane.recipe import recipes

pytestmark = pytest.mark.timeout(1200)

_OTHERS = [version for version in SUPPORTED if version != str(DEFAULT_VERSION)]
_CLUSTERS = 60
_WITH_DEVICES = 30


@pytest.fixture(params=_OTHERS)
def other(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A version and its program."""
    version: str = request.param
    program = find(version)
    if program is None:
        pytest.skip(f"the oracle of {version} is not built; `python -m tests.oracle --kubernetes {version}` builds it")
    return version, program


@pytest.mark.parametrize("mode", ["placement", "sequential", "scores"])
def test_a_version_is_judged_as_its_own_plug_ins_judge(other: tuple[str, Path], mode: Mode) -> None:
    version, program = other
    ours = side(mode, VersionRequest(version=KubernetesVersion.parse(version)))
    outcome = run(program, mode=mode, seed=5, indices=range(_CLUSTERS), ours=ours)
    reported = [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()]
    assert reported == [], f"python -m tests.oracle --kubernetes {version} --seed 5 --clusters {_CLUSTERS} shrinks and shows it"


@pytest.mark.parametrize("mode", ["placement", "sequential", "scores"])
def test_devices_are_judged_as_a_versions_own_plug_in_judges(other: tuple[str, Path], mode: Mode) -> None:
    version, program = other
    kubernetes = KubernetesVersion.parse(version)
    size = Size(devices=True, device_limits=device_limits(kubernetes))
    ours = side(mode, VersionRequest(version=kubernetes))
    outcome = run(program, mode=mode, seed=5, indices=range(_WITH_DEVICES), ours=ours, size=size)
    reported = [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()]
    assert reported == [], f"python -m tests.oracle --devices --kubernetes {version} --seed 5 shrinks and shows it"


def test_the_recipe_builds_every_supported_version() -> None:
    assert tuple(recipes()) == SUPPORTED
