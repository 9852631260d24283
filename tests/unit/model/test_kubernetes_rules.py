"""Versions of Kubernetes: how they are read, which rules they follow, and which gates they accept."""

import pickle

import pytest

from slackwater.model.kubernetes_rules import (
    DEFAULT_VERSION,
    GATES,
    SUPPORTED,
    GateRule,
    KubernetesVersion,
    Rule,
    read_gates,
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("v1.36.3", "1.36.3"),
        ("1.36", "1.36.0"),
        ("v1.35.4-gke.1000", "1.35.4"),
        ("v1.34.4+k3s1", "1.34.4"),
        ("v1.38.0-alpha.2", "1.38.0"),
        (" 1.37.2 ", "1.37.2"),
    ],
)
def test_a_version_is_read_with_any_vendors_ending(text: str, want: str) -> None:
    assert str(KubernetesVersion.parse(text)) == want


@pytest.mark.parametrize("text", ["", "1", "2.1", "v1.x", "1.36.3.4", "1.1234", "latest", "1.36 or so", "1.٣٦"])
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"want a version of Kubernetes like 1\.36 or v1\.36\.3"):
        KubernetesVersion.parse(text)


def following(text: str, **gates: bool) -> set[Rule]:
    version = KubernetesVersion.parse(text, gates)
    return {rule for rule in Rule if version.follows(rule)}


def test_each_version_adds_its_rules() -> None:
    always = {Rule.POD_LEVEL_RESOURCES}
    since_35 = {Rule.INCOMPLETE_POOLS_UNUSED, Rule.DEVICES_SCORED, Rule.ONLY_KNOWN_EFFECTS}
    since_36 = {
        Rule.CLAIM_OWNER_CAPITALS,
        Rule.DEVICE_TAINTS,
        Rule.PARTITIONABLE_DEVICES,
        Rule.CONSUMABLE_CAPACITY,
        Rule.BINDING_CONDITIONS,
        Rule.DEVICE_CLASS_RESOURCES,
        Rule.BALANCE_BY_IMPROVEMENT,
        Rule.IMAGE_VOLUMES_SCORED,
        Rule.CSI_DRIVER_OPTS_IN,
        Rule.PORTWORX_MIGRATED,
        Rule.FEATURES_UNNAMED,
        Rule.HOST_USERS_DECLARED,
        Rule.NODE_DECLARED_FEATURES,
        Rule.POD_LEVEL_RESIZE,
        Rule.SHARED_ONCE,
    }
    assert following("1.34") == always
    assert following("1.35") == always | since_35
    assert following("1.36") == always | since_35 | since_36
    assert following("1.37") == set(Rule) - {Rule.COMPARING_TOLERATIONS, Rule.FRACTIONAL_CAPACITY}


def test_versions_that_are_not_known_follow_the_nearest_one_and_say_so() -> None:
    newer, older = KubernetesVersion.parse("1.99"), KubernetesVersion.parse("1.20")
    assert following("1.99") == following("1.37")
    assert following("1.20") == following("1.34")
    assert newer.note == "Kubernetes 1.99.0 is newer than what Slackwater knows; it follows the rules of 1.37"
    assert older.note == "Kubernetes 1.20.0 is older than what Slackwater supports; it follows the rules of 1.34"
    assert [KubernetesVersion.parse(text).note for text in SUPPORTED] == [""] * len(SUPPORTED)


def test_a_gate_switches_its_rule() -> None:
    assert Rule.COMPARING_TOLERATIONS in following("1.36", TaintTolerationComparisonOperators=True)
    assert Rule.VOLUME_LIMIT_SCALING not in following("1.37", VolumeLimitScaling=False)
    assert {rule.value.gate for rule in Rule if isinstance(rule.value, GateRule)} == set(GATES)


def test_a_gate_that_the_version_lacks_or_has_fixed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"VolumeLimitScaling: Kubernetes 1\.34\.0 does not have it, 1\.35 is the first"):
        KubernetesVersion.parse("1.34", {"VolumeLimitScaling": True})
    with pytest.raises(ValueError, match=r"NodeDeclaredFeatures: cannot be changed since Kubernetes 1\.37"):
        KubernetesVersion.parse("1.37", {"NodeDeclaredFeatures": False})
    assert KubernetesVersion.parse("1.37", {"NodeDeclaredFeatures": True}).enabled("NodeDeclaredFeatures")


def test_gates_that_no_rule_reads_are_kept_and_named() -> None:
    version = KubernetesVersion.parse("1.36", {"GenericWorkload": True, "StorageCapacityScoring": True})
    assert version.unread_gates == ("GenericWorkload",)


def test_versions_agree_whose_rules_are_the_same() -> None:
    assert KubernetesVersion.parse("1.35.4").agrees_with(KubernetesVersion.parse("1.35.0"))
    assert not DEFAULT_VERSION.agrees_with(KubernetesVersion.parse("1.37"))
    assert not DEFAULT_VERSION.agrees_with(DEFAULT_VERSION.with_gates({"StorageCapacityScoring": True}))


def test_gates_are_read_as_kube_schedulers_own_flag_has_them() -> None:
    assert read_gates("A=true, B=False,") == {"A": True, "B": False}
    assert read_gates("") == {}
    for wrong in ("A", "A=", "=true", "A=yes"):
        with pytest.raises(ValueError, match="want Name=true or Name=false"):
            read_gates(wrong)


def test_a_version_reaches_another_process_as_it_is() -> None:
    version = DEFAULT_VERSION.with_gates({"StorageCapacityScoring": True})
    assert pickle.loads(pickle.dumps(version)) == version
