"""`slackwater simulate consolidate`: what is replaced by what, what that saves, and why the other nodes stay."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.cli.main import main
from tests.support.configuration import HEAD
from tests.support.manifests import Obj, node_labels, node_manifest, owned_by, pod_manifest


def a_node(name: str, cpu: str, group: str | None = None) -> Obj:
    return node_manifest(name, cpu=cpu, labels=node_labels(name, group), meta={})


def a_pod(name: str, on: str, cpu: str) -> Obj:
    return pod_manifest(name, cpu=cpu, on=on, meta={"labels": {"app": "web"}, **owned_by("web")})


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*items: Obj, config: Obj | None = None, options: tuple[str, ...] = ()) -> str:
        file, settings = tmp_path / "cluster.json", tmp_path / "slackwater.yaml"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        settings.write_text(yaml.safe_dump({**HEAD, "autoscaler": config or {}}))
        assert main(["simulate", "consolidate", "--cluster", str(file), "--config", str(settings), *options]) == 0
        return capsys.readouterr().out

    return run


def a_group(name: str, price: str, cpu: str) -> Obj:
    capacity = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {"name": name, "price": price, "template": {"status": {"capacity": capacity}}}


def test_the_last_large_node_is_replaced_by_a_small_one(run: Any) -> None:
    config = {"nodeGroups": [a_group("large", "1.6", "32"), a_group("small", "0.2", "4")]}
    items = [a_node("l1", "32", "large"), *(a_pod(f"p{number}", "l1", "500m") for number in range(4))]
    answer = json.loads(run(*items, config=config, options=("-o", "json")))
    (move,) = answer["moves"]
    assert (move["leaving"], move["coming"], move["saved"], move["evictions"]) == (["l1"], {"small": 1}, "1.40", 4)
    assert (answer["cost"]["perHour"], answer["costAfter"]["perHour"], answer["cost"]["basis"]) == (
        "1.60",
        "0.20",
        "configured",
    )
    lines = run(*items, config=config, options=("-o", "table")).splitlines()
    assert lines[0].split() == ["MOVE", "NODES", "GO", "NODES", "COME", "SAVED/HOUR", "EVICTIONS", "SAVING/DISRUPTION"]
    assert lines[1].split()[:4] == ["1", "l1", "1", "small"]
    assert lines[2] == "1 node would go and 1 come, with 4 evictions"
    assert lines[3].startswith("cost of the nodes: 1.60 USD an hour (configured), after it 0.20 USD; new nodes for all pods")


def test_without_prices_the_formula_counts_and_nothing_is_bought(run: Any) -> None:
    items = [a_node(f"n{number}", "8") for number in range(3)]
    items += [a_pod(f"p{number}", f"n{number}", "4") for number in range(3)]
    text = run(*items, options=("-o", "table"))
    assert "1 node would go and 0 come, with 1 eviction\n" in text
    assert "USD an hour (formula)" in text
    assert "DestinationOfOtherPods" in text


def test_a_node_that_saves_too_little_says_what_was_compared(run: Any) -> None:
    config = {"nodeGroups": [a_group("large", "1.6", "32"), a_group("medium", "1.0", "16"), a_group("small", "0.3", "4")]}
    items = [a_node("l1", "32", "large"), *(a_pod(f"p{number}", "l1", "3") for number in range(5))]
    (kept,) = json.loads(run(*items, config=config, options=("-o", "json")))["kept"]
    assert kept["reason"] == "SavesTooLittle"
    disturbs = "it costs 1.60 an hour, and has to save 0.80 for what moving its 5 pods disturbs"
    room = "parts of new nodes for them"
    whole = "if pods could be divided, a new node for them all 1.00"
    assert re.fullmatch(f"{disturbs}; {room} cost 0[.][67][0-9]* {whole}", kept["detail"])
    config["nodeGroups"][1:] = config["nodeGroups"][2:]
    items[1:] = [a_pod(f"p{number}", "l1", "5") for number in range(6)]
    (kept,) = json.loads(run(*items, config=config, options=("-o", "json")))["kept"]
    assert kept["detail"].endswith("a new node for them all 1.60")


def test_a_node_that_a_cheaper_one_may_not_replace_says_why(run: Any) -> None:
    """Or the figures contradict the reason: the cheaper node would save enough."""
    groups = [a_group("large", "1.6", "32"), a_group("medium", "0.2", "16")]
    items = [a_node("l1", "32", "large"), *(a_pod(f"p{number}", "l1", "3") for number in range(5))]

    def why(**of_medium: Any) -> str:
        config = {"nodeGroups": [groups[0], {**groups[1], **of_medium}]}
        (kept,) = json.loads(run(*items, config=config, options=("-o", "json")))["kept"]
        assert kept["reason"] == "SavesTooLittle"
        detail: str = kept["detail"]
        return detail.partition("divided, ")[2]

    assert why(maxSize=0) == "a new node for them all 1.60 (of a group that cannot grow 0.20)"
    template = groups[1]["template"]
    spot = {**template, "metadata": {"labels": {"karpenter.sh/capacity-type": "spot"}}}
    assert why(template=spot) == "a new node for them all 1.60 (a spot node 0.20, and consolidation.allowSpot is false)"


def test_nodes_that_cost_nothing_leave_the_bound_below_the_cost(run: Any) -> None:
    items = [a_node(f"n{number}", "8", "pool") for number in range(2)] + [a_pod("p", "n0", "4")]
    answer = json.loads(run(*items, config={"nodeGroups": [a_group("pool", "0", "8")]}, options=("-o", "json")))
    assert (answer["costAfter"]["perHour"], answer["bound"]) == ("0.00", None)


def test_explain_says_what_a_plan_does_with_the_node_if_consolidation_is_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def explained(name: str, *, on: bool) -> dict[str, str]:
        groups = [a_group("large", "1.6", "32"), a_group("small", "0.2", "4")]
        config = {"nodeGroups": groups, "consolidation": {"enabled": on}}
        items = [a_node("l1", "32", "large"), *(a_pod(f"p{number}", "l1", "500m") for number in range(4))]
        items += [a_node("s1", "4", "small"), a_pod("q", "s1", "3900m")]
        file, settings = tmp_path / "cluster.json", tmp_path / "slackwater.yaml"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        settings.write_text(yaml.safe_dump({**HEAD, "autoscaler": config}))
        main(["explain", "node", name, "--cluster", str(file), "--config", str(settings), "-o", "json"])
        reasons = json.loads(capsys.readouterr().out)["reasons"]
        return {each["code"]: each.get("detail", "") for each in reasons if "plan" in each.get("detail", "") or not on}

    assert explained("l1", on=True) == {
        "LeftToConsolidation": "a plan replaces it: reason Underutilized, saves 1.40 an hour, 4 evictions"
    }
    assert "LeftToConsolidation" not in explained("l1", on=False)
