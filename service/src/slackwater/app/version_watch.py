"""Finds the version of Kubernetes whose rules the service follows, and notices when it changes.

The configuration may state the version. Otherwise it is the API server's, which is read before a `Service` is built and again
every minute. Servers of one control plane differ while it is upgraded, so only a newer version counts. The requests of pods are
decoded by the version's rules, so after a change a new `Service` is built (`app.process`). The version of kube-scheduler itself
is not asked for, because no API tells it.
"""

import itertools
from typing import Final

import anyio
import structlog

from slackwater.adapters.api_calls import ApiReads
from slackwater.adapters.kube.errors import KubeError, NoAnswer, Unreachable
from slackwater.adapters.kube.objects import server_version
from slackwater.app.settings import Settings
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion

_log = structlog.get_logger(__name__)

#: How long `FollowedVersion.find` waits for an API server that does not answer, and how often it asks meanwhile.
_FIRST_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.5
#: How often the version is read again; more often as long as it was never read.
_EVERY_SECONDS: Final = 60.0
_UNREAD_SECONDS: Final = 5.0


class FollowedVersion:
    """Determines the version of Kubernetes to follow, for all `Service` objects that one process builds after another."""

    def __init__(self, client: ApiReads) -> None:
        self._client = client
        self._newest: KubernetesVersion | None = None
        #: The API server has refused to say; logged once.
        self._refused = False

    async def find(self, settings: Settings) -> KubernetesVersion:
        """The version for a `Service` that is built now: the configured version, otherwise the API server's.

        If the API server does not answer, the newest version that was read before, or the default."""
        if settings.scheduler.stated is None:
            with anyio.move_on_after(_FIRST_SECONDS):
                for _ in itertools.repeat(None):
                    if await self._read():
                        break
                    await anyio.sleep(_AGAIN_SECONDS)
        if self._newest is None and settings.scheduler.stated is None:
            _log.warning("version of Kubernetes not read yet, assuming the default", version=str(DEFAULT_VERSION))
        version = _of(settings, self._newest)
        _log.info("following kube-scheduler", version=str(version), gates=sorted(name for name, _ in version.gates))
        if version.note:
            _log.warning("version of Kubernetes not supported", why=version.note)
        if version.unread_gates:
            _log.warning("feature gates without effect on Slackwater's rules", gates=list(version.unread_gates))
        return version

    async def changed(self, settings: Settings, in_force: KubernetesVersion) -> None:
        """Waits until the version to follow has other rules than the version `in_force`."""
        while _of(settings, self._newest).agrees_with(in_force):
            await anyio.sleep(_UNREAD_SECONDS if self._newest is None else _EVERY_SECONDS)
            if settings.scheduler.stated is None:
                await self._read()
        _log.warning("version of Kubernetes changed, a new life begins", version=str(self._newest), found=str(in_force))

    async def _read(self) -> bool:
        """Reads the API server's version. False if there was no answer, so that asking again soon makes sense."""
        try:
            found = await server_version(self._client)
        except (NoAnswer, Unreachable):
            return False
        except KubeError as error:
            log = _log.debug if self._refused else _log.warning
            log("version of the API server not readable", error=str(error))
            self._refused = True
            return True
        if self._newest is None or (found.minor, found.patch) > (self._newest.minor, self._newest.patch):
            self._newest = found
        return True


def _of(settings: Settings, newest: KubernetesVersion | None) -> KubernetesVersion:
    found = newest or DEFAULT_VERSION
    try:
        return settings.scheduler.of(found)
    except ValueError as error:
        _log.error("scheduler.featureGates does not suit the cluster, it is ignored", problem=str(error))
        return settings.scheduler.stated or found
