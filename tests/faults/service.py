"""How the service is set up for a run: how long holds last, and in some an autoscaler whose group is not to be relied on."""

from random import Random
from typing import Final

from slackwater.app.settings import Settings, loads
from tests.faults import laws

#: Of all runs, so many have an autoscaler.
_AUTOSCALED: Final = 0.4
#: Of all runs, in so many Slackwater binds.
_BINDS: Final = 0.5
_SETTINGS: Final = """
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
extender: {{bind: {bind}, holdTimeout: {hold}s, bindBackoff: 10s}}
"""
_AUTOSCALER: Final = """
autoscaler:
  enabled: true
  scanInterval: 2s
  nodeGroups:
  - name: {pool}
    provider: kwok
    maxSize: {most}
    template: {{status: {{capacity: {{cpu: "4", memory: 16Gi, pods: "20"}}}}}}
    kwok: {{appearAfter: 1s, appearSpread: 2s, bootAfter: 1s, failing: {failing}, silent: {failing}, stock: {stock}}}
  creation: {{timeout: 20s, callTimeout: 5s, backoff: {{initial: 5s, max: 10s}}}}
  scaleDown:
    unneededTime: 3s
    utilizationThreshold: 1.0
    delayAfterAdd: 2s
    delayAfterFailure: 5s
    unremovableRecheckTime: 5s
    drain: {{settleTime: 1s, retryInterval: 1s}}
"""


def settings_of(hold: Random, autoscaler: Random, bind: Random) -> Settings:
    """Half of the runs are in the default mode, where kube-scheduler binds."""
    binds = "true" if bind.random() < _BINDS else "false"
    return loads(_SETTINGS.format(hold=hold.choice((1, 3, 10)), bind=binds) + _autoscaler(autoscaler))


def _autoscaler(rng: Random) -> str:
    if rng.random() >= _AUTOSCALED:
        return ""
    most = rng.randrange(1, 5)
    failing = rng.choice((0.0, 0.0, 0.2))
    return _AUTOSCALER.format(pool=laws.POOL, most=most, failing=failing, stock=rng.randrange(1, 6))
