"""The configuration file's section about the kube-scheduler whose rules Slackwater follows.

The docstring under each key becomes its description in docs and schema: its default and why.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from slackwater.configuration.section import Section
from slackwater.configuration.values import Name, refused
from slackwater.model.kubernetes_rules import OLDEST_MINOR, KubernetesVersion, read_gates

_AUTO = "auto"
_GATE = r"[A-Z][A-Za-z0-9]*=(true|false)"


def _known(text: str) -> str:
    if text == _AUTO:
        return text
    try:
        version = KubernetesVersion.parse(text)
    except ValueError:
        raise refused("auto, or a version of Kubernetes like 1.36 or 1.36.3") from None
    if version.minor < OLDEST_MINOR:
        raise refused(f"auto, or a version of Kubernetes from 1.{OLDEST_MINOR} on")
    return text


class Scheduler(Section):
    """The kube-scheduler whose rules Slackwater follows; docs/versions.md lists where they differ."""

    version: Annotated[
        str,
        Name(
            pattern=r"(auto|v?1\.[0-9]+(\.[0-9]+)?([-+][0-9A-Za-z.+_-]*)?)",
            longest=63,
            words="auto, or a version of Kubernetes",
        ),
        AfterValidator(_known),
    ] = Field(default=_AUTO, examples=["auto", "1.36", "1.35.4"])
    """Version of kube-scheduler. auto by default: the API server's version, which the service reads at start and every minute;
    `slackwater simulate` takes it from the cluster or the file. Set it while a control plane is upgraded and the two differ."""
    feature_gates: Annotated[
        str,
        Name(pattern=rf"({_GATE}(,{_GATE})*)?", longest=4096, words="Name=true or Name=false, several with commas"),
    ] = Field(default="", examples=["TaintTolerationComparisonOperators=true"])
    """Feature gates of kube-scheduler, as in its flag `--feature-gates`. Empty by default: those of its version."""

    def of(self, found: KubernetesVersion) -> KubernetesVersion:
        """The version to follow: the configured one, or with `auto` the API server's (`found`), with the configured gates.

        Raises ValueError for gates that the version does not have.
        """
        version = found if self.version == _AUTO else KubernetesVersion.parse(self.version)
        return version.with_gates(read_gates(self.feature_gates))

    @property
    def stated(self) -> KubernetesVersion | None:
        """The version that the file states; None for auto."""
        return None if self.version == _AUTO else KubernetesVersion.parse(self.version)
