"""What the autoscaler is told by the configuration file."""

from slackwater.app.observing_autoscaler import loop_config_of
from slackwater.app.policies import node_group_policy_of, scale_up_policy_of
from slackwater.app.settings import Settings, loads
from tests.support.configuration import HEADER

FILE = """
autoscaler:
  scanInterval: 2s
  maxNodesInCreation: 40
  nodeGroups:
  - {name: a, maxNodesInCreation: 7}
  - {name: b, enabled: false}
  creation: {timeout: 5m, callTimeout: 40s, backoff: {initial: 1m, max: 10m, reset: 1h}}
"""


def test_the_node_group_registry_gets_its_limits_and_its_provision_timeout() -> None:
    policy = node_group_policy_of(loads(HEADER + FILE))
    assert (policy.in_cluster, policy.in_group) == (40, {"a": 7, "b": 100})
    assert policy.off == {"b"}
    assert policy.provision_seconds == 300
    assert policy.doubt_seconds == 80, "a call that is repeated has had the time to end twice"
    backoff = policy.backoff
    assert (backoff.initial, backoff.max, backoff.reset) == (60, 600, 3600)


def test_the_defaults_are_cluster_autoscalers() -> None:
    policy = node_group_policy_of(Settings())
    assert (policy.in_cluster, policy.in_other_groups, policy.provision_seconds) == (100, 100, 900)
    backoff = policy.backoff
    assert (backoff.initial, backoff.max, backoff.reset) == (300, 1800, 10_800)


def test_an_early_loop_waits_for_less_than_an_interval() -> None:
    assert loop_config_of(Settings()).interval_seconds == 10
    assert (loop_config_of(Settings()).settle_seconds, loop_config_of(Settings()).longest_settle_seconds) == (1, 5)
    quick = loop_config_of(loads(HEADER + FILE))
    assert (quick.interval_seconds, quick.settle_seconds, quick.longest_settle_seconds) == (2, 0.5, 1)
    assert quick.call_seconds == 40


def test_bursts_are_planned_whole_and_nodes_kept_for_their_pods_with_the_expander_price_or_as_configured() -> None:
    def chosen(expanders: str, more: str = "") -> tuple[bool, float, float, float, bool]:
        settings = loads(HEADER + f"autoscaler: {{expanders: [{expanders}], scaleUp: {{{more}}}}}")
        loop, policy = loop_config_of(settings), scale_up_policy_of(settings)
        assert loop.bypassed == policy.pending.bypassed_scheduler_names == ("slackwater",)
        pending = policy.pending
        ages = pending.untried_seconds, pending.settle_time
        return loop.whole_bursts, loop.longest_settle_seconds, *ages, policy.place_as_planned

    assert chosen("least-waste") == chosen("least-waste, price") == (False, 5, 5, 2, False)
    assert chosen("price") == chosen("priority, price") == (True, 10, 1, 1, True)
    assert chosen("price", "maxBatchTime: 0s, placeAsPlanned: false") == (False, 5, 5, 2, False)
    assert chosen("least-waste", "maxBatchTime: 20s, placeAsPlanned: true") == (True, 20, 1, 1, True)
    assert chosen("price", "settleTime: 4s") == (True, 10, 1, 4, True)
