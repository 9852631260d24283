"""`slackwater config from-karpenter`: every field of a NodePool has a verdict, and the file is valid."""

import json
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.app.converters.draft import ConversionError, Converted
from slackwater.app.converters.karpenter import from_karpenter
from slackwater.app.converters.workloads import manifests
from slackwater.app.settings import loads
from slackwater.app.settings.autoscaling import Autoscaler, NodeGroup
from slackwater.cli.main import main
from slackwater_protocol.durations import HOUR, MINUTE
from tests.support.odd import ODD, changed, places

EXAMPLE: Final = Path("docs/guides/nodepools.yaml").absolute()


def pool(name: str = "default", *, version: str = "v1", template: Any = None, **spec: Any) -> dict[str, Any]:
    whole = {"template": {"spec": template or {}}, **spec}
    return {"apiVersion": f"karpenter.sh/{version}", "kind": "NodePool", "metadata": {"name": name}, "spec": whole}


def overlay(name: str, key: str, value: str, **spec: Any) -> dict[str, Any]:
    requirements = [{"key": key, "operator": "In", "values": [value]}]
    meta = {"name": name}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": meta,
        "spec": {"requirements": requirements, **spec},
    }


def converted(*objects: dict[str, Any], provider: str = "clusterapi") -> Converted:
    return from_karpenter(manifests(map(msgspec.json.encode, objects)), provider=provider)


def autoscaler(*objects: dict[str, Any]) -> Autoscaler:
    result = converted(*objects)
    assert result.refused == ()
    return loads(result.text).autoscaler


def group(*objects: dict[str, Any]) -> NodeGroup:
    return autoscaler(*objects).node_groups[0]


def test_an_absent_field_has_karpenters_default() -> None:
    found = autoscaler(pool())
    (only,) = found.node_groups
    assert (only.scale_down.unneeded_time, only.scale_down.expire_after) == (0, 720 * HOUR)
    assert only.scale_down.disruption_budgets is not None
    assert [(each.nodes, each.reasons) for each in only.scale_down.disruption_budgets] == [("10%", ())]
    assert (found.consolidation.enabled, found.consolidation.min_saving_ratio, found.consolidation.drift) == (True, 0, True)
    assert found.expanders == ("price",)


def test_times_and_budgets_are_the_groups() -> None:
    nights = {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h", "reasons": ["Underutilized"]}
    disruption = {"consolidateAfter": "30m", "budgets": [{"nodes": "20%"}, nights]}
    found = group(pool(template={"expireAfter": "Never"}, disruption=disruption)).scale_down
    assert (found.unneeded_time, found.expire_after) == (30 * MINUTE, 0)
    assert found.disruption_budgets is not None
    assert [(each.nodes, each.schedule, each.reasons) for each in found.disruption_budgets] == [
        ("20%", None, ()),
        (0, "0 9 * * mon-fri", ("Underutilized",)),
    ]


@pytest.mark.parametrize(
    ("disruption", "reasons"),
    [({"consolidationPolicy": "WhenEmpty"}, ("Underutilized",)), ({"consolidateAfter": "Never"}, ("Empty", "Underutilized"))],
)
def test_what_may_not_be_consolidated_has_a_budget_of_no_node(disruption: dict[str, str], reasons: tuple[str, ...]) -> None:
    budgets = group(pool(disruption=disruption)).scale_down.disruption_budgets
    assert budgets is not None
    assert (budgets[-1].nodes, budgets[-1].reasons) == (0, reasons)


def test_the_policy_balanced_keeps_its_ratio() -> None:
    assert autoscaler(pool(disruption={"consolidationPolicy": "Balanced"})).consolidation.min_saving_ratio == 0.5


def test_weights_become_priorities_and_limits_quotas() -> None:
    result = converted(pool("a", weight=10, limits={"cpu": "100", "memory": "1Ti"}), pool("b.c"))
    found = loads(result.text).autoscaler
    assert found.expanders == ("priority", "price")
    (quota,) = found.scale_up.quotas
    assert (quota.node_labels, quota.limits["cpu"]) == ({"karpenter.sh/nodepool": "a"}, 100 * 10**9)
    (said,) = [each.why for each in result.findings if each.flag.startswith("ConfigMap")]
    assert json.loads(said.partition("priorities='")[2].rstrip("'")) == {"10": ["^a$"], "0": ["^b[.]c$"]}


def test_labels_taints_and_single_values_are_the_template() -> None:
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        {"key": "example.com/x", "operator": "Exists"},
    ]
    taint = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}
    template = {
        "requirements": requirements,
        "taints": [taint],
        "startupTaints": [{"key": "a.example/x", "effect": "NoExecute"}],
    }
    result = converted(pool(template=template))
    found = loads(result.text).autoscaler
    (only,) = found.node_groups
    assert only.template.metadata.labels == {"karpenter.sh/nodepool": "default", "kubernetes.io/arch": "arm64"}
    assert [each.key for each in only.template.spec.taints] == ["dedicated"]
    assert found.scale_up.startup_taints[-1] == "a.example/x"
    assert found.consolidation.allow_spot
    without = [each.value for each in result.findings if each.verdict == "no-counterpart"]
    assert without == ["karpenter.sh/capacity-type In spot,on-demand", "example.com/x Exists"]


def test_overlays_become_prices_and_discounts() -> None:
    sized = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}]
    found = autoscaler(
        pool(template={"requirements": sized}),
        overlay("light", "node.kubernetes.io/instance-type", "m5.large", price="9"),
        overlay("heavy", "node.kubernetes.io/instance-type", "m5.large", price="0.08", weight=5),
        overlay("spot", "karpenter.sh/capacity-type", "spot", priceAdjustment="-60%"),
    )
    assert found.node_groups[0].price == 80_000
    assert found.prices is not None
    assert [(each.node_labels, each.factor) for each in found.prices.discounts] == [
        ({"karpenter.sh/capacity-type": "spot"}, 0.4)
    ]
    dearer = converted(pool(), overlay("up", "a", "b", priceAdjustment="+10%"))
    assert [each.verdict for each in dearer.findings if each.flag == "NodeOverlay up"] == ["no-counterpart"]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pool(version="v1beta1"), "want apiVersion karpenter.sh/v1"),
        (pool(wieght=3), "did you mean spec.weight?"),
        (pool(template={"expireafter": "1h"}), "did you mean spec.template.spec.expireAfter?"),
        (pool(weight="3"), "want a whole number >= 0"),
        (pool(template={"expireAfter": 720}), "want a duration such as 720h, or Never"),
        (pool(template={"expireAfter": "720"}), 'want a duration >= 0 such as "10m"'),
        (pool(disruption={"consolidationPolicy": "Always"}), "want WhenEmpty, WhenEmptyOrUnderutilized or Balanced"),
        (pool(disruption={"budgets": [{"nodes": "200%"}]}), "want a whole number >= 0 or a percentage"),
        (pool(disruption={"budgets": [{"node": "1"}]}), "did you mean nodes?"),
        (pool(disruption={"budgets": "10%"}), "want a list of mappings"),
        (pool(disruption=[]), "want a mapping"),
        (pool(name="a; b"), "want a name of lower case letters"),
        (pool(name=""), "want a name of lower case letters"),
    ],
)
def test_what_is_wrong_is_named_and_there_is_no_file(found: dict[str, Any], said: str) -> None:
    result = converted(found)
    assert result.text == ""
    assert any(said in each.why for each in result.refused), result.refused


def test_node_classes_are_named_and_no_pool_is_an_error() -> None:
    classes = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "own"}}
    result = converted(pool(), classes)
    assert [each.verdict for each in result.findings if each.flag == "EC2NodeClass own"] == ["no-counterpart"]
    with pytest.raises(ConversionError, match=r"got EC2NodeClass of karpenter\.k8s\.aws/v1, want at least one"):
        converted(classes)
    others = {"apiVersion": "container.gcp.upbound.io/v1beta1", "kind": "NodePool", "metadata": {"name": "gke"}, "spec": {}}
    assert [each.name for each in autoscaler(pool(), others).node_groups] == ["default"], "another one of that name"


def test_with_karpenters_machines_the_node_pools_stay_and_are_handed_over_by_a_patch() -> None:
    """Nothing that a NodePool says has a second place, but what holds for all groups."""
    spot = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}
    startup = [{"key": "a.example/x", "effect": "NoExecute"}]
    result = converted(
        pool("a", template={"requirements": [spot], "startupTaints": startup}, weight=10, limits={"cpu": "100"}),
        pool("b", disruption={"budgets": [{"nodes": "20%"}]}),
        pool("static", replicas=3),
        overlay("cheap", "x", "y", price="1"),
        provider="karpenter",
    )
    assert result.refused == ()
    found = loads(result.text).autoscaler
    assert (found.node_groups, found.scale_up.quotas, found.prices) == ((), (), None)
    assert found.providers.karpenter is not None
    assert (found.expanders, found.consolidation.allow_spot, found.consolidation.drift) == (("priority", "price"), True, True)
    assert found.scale_up.startup_taints[-1] == "a.example/x"
    patches = {each.flag: each.why.partition("--patch '")[2].rstrip("'") for each in result.findings if "hand it" in each.flag}
    assert {flag: json.loads(text)["spec"]["disruption"]["budgets"] for flag, text in patches.items()} == {
        "NodePool a: hand it over": [{"nodes": "10%"}, {"nodes": "0"}],
        "NodePool b: hand it over": [{"nodes": "20%"}, {"nodes": "0"}],
    }
    left = {each.flag for each in result.findings if each.verdict == "to-do"}
    assert left == {*patches, "NodeOverlay cheap", "the file of instance types"}
    assert {each.flag for each in result.findings if each.verdict == "no-counterpart"} == {"NodePool static spec.replicas"}
    assert converted(pool(wieght=3), provider="karpenter").refused


def test_a_node_pool_that_is_there_twice_is_refused() -> None:
    (finding, _) = converted(pool(), pool()).refused
    assert finding.why == "got it 2 times, want it once"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, [{"nodes": "10%"}, {"nodes": "0"}]),
        ({"disruption": {"budgets": None}}, [{"nodes": "10%"}, {"nodes": "0"}]),
        ({"disruption": {"budgets": []}}, [{"nodes": "0"}]),
        ({"disruption": {"budgets": [{"nodes": "0"}, {"nodes": "5"}]}}, [{"nodes": "5"}, {"nodes": "0"}]),
        ({"disruption": {"budgets": [{"nodes": "0", "schedule": "0 9 * * 'x"}]}}, None),
        ({"limits": {"nodes": "0"}, "disruption": {"budgets": [{"nodes": "0"}]}}, []),
    ],
)
def test_the_patch_leaves_budgets_as_they_are(spec: dict[str, Any], want: list[dict[str, str]] | None) -> None:
    result = converted(pool(**spec), provider="karpenter")
    (finding,) = (each for each in result.findings if "hand it" in each.flag)
    assert (finding.verdict == "taken") == (want == [])
    if want != []:
        words = shlex.split(finding.why.partition(": ")[2])
        budgets = json.loads(words[words.index("--patch") + 1])["spec"]["disruption"]["budgets"]
        assert budgets == (want or [*spec["disruption"]["budgets"], {"nodes": "0"}])


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_odd_field_is_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    budget = {"nodes": "5", "reasons": ["Drifted"], "schedule": "@daily", "duration": "1h"}
    requirement = {"key": "a", "operator": "In", "values": ["b"], "minValues": 1}
    template = {"requirements": [requirement], "taints": [{"key": "x", "effect": "NoSchedule"}], "expireAfter": "1h"}
    whole = pool(template=template, weight=3, limits={"cpu": "4"}, disruption={"budgets": [budget], "consolidateAfter": "1m"})
    objects = [whole, overlay("o", "a", "b", price="1.5")]
    number = data.draw(st.sampled_from([0, 1]))
    objects[number] = changed(objects[number], data.draw(st.sampled_from(list(places(objects[number])))), data.draw(ODD))
    with suppress(ConversionError):
        converted(*objects, provider=data.draw(st.sampled_from(["karpenter", "aws"])))


def test_the_command_takes_karpenters_machines_unless_another_provider_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "slackwater.yaml"
    assert main(["config", "from-karpenter", str(EXAMPLE), "--output", str(target)]) == 0
    assert "kubectl patch nodepool default --type merge" in capsys.readouterr().err
    assert main(["config", "check", str(target)]) == 0
    capsys.readouterr()
    assert main(["config", "from-karpenter", str(EXAMPLE), "--provider", "gce"]) == 2
    assert "want one of karpenter, " in capsys.readouterr().err
    assert main(["config", "from-cluster-autoscaler", str(EXAMPLE), "--provider", "karpenter"]) == 2


def test_the_example_of_the_guide_becomes_a_valid_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "slackwater.yaml"
    assert main(["config", "from-karpenter", str(EXAMPLE), "--provider", "clusterapi", "--output", str(target)]) == 0
    assert "EC2NodeClass default" in capsys.readouterr().err
    assert main(["config", "check", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: valid\n"
