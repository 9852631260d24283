"""The configuration of kube-scheduler without an extender has nothing of ours that would make it faster or slower."""

import yaml

from tests.bench.contenders import scheduler_config
from tests.bench.scheduler_throughput import _few_nodes


def test_kube_scheduler_alone_scores_as_many_nodes_as_by_default() -> None:
    document = yaml.safe_load(scheduler_config(None))
    assert "extenders" not in document
    assert all("percentageOfNodesToScore" not in profile for profile in document["profiles"])


def test_few_nodes_to_score_are_as_few_as_with_slackwater() -> None:
    document = yaml.safe_load(scheduler_config(None, _few_nodes))
    assert [profile["percentageOfNodesToScore"] for profile in document["profiles"]] == [1]
