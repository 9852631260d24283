"""Traps that only the text of a file shows: what YAML makes of it, and what kube-scheduler does."""

import yaml

from slackwater.app.scheduler_config.check import check
from slackwater.app.scheduler_config.generate import generate
from slackwater.app.settings import Settings

CLEAN = generate(Settings(), kubeconfig=None, extender_url=None)


def test_a_duplicate_key_ends_the_start() -> None:
    text = yaml.safe_dump(yaml.safe_load(CLEAN)) + "kind: KubeSchedulerConfiguration\n"
    (finding,) = check(text, None)
    assert (finding.path, finding.trap) == ("kind", "ambiguous-yaml")


def test_on_is_true_as_kube_scheduler_reads_it() -> None:
    text = CLEAN.replace("ignorable: false", "ignorable: on")
    assert [finding.trap for finding in check(text, None)] == ["ignorable"]
