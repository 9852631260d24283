"""What nodes cost, in the answers of simulate and explain, from a price in the configuration to the output."""

import json
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.main import main
from tests.support.configuration import HEAD
from tests.support.manifests import Obj, node_labels, node_manifest, pod_manifest

TABLE = "Instance Type,Zone,Capacity Type,Price Per Hour,Currency\nm5.xlarge,*,on-demand,0.192,USD\n"
OVERLAY = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "support"},
    "spec": {"requirements": [{"key": "big", "operator": "Exists"}], "weight": 1, "priceAdjustment": "+100%"},
}


def a_group(name: str, cpu: str, labels: Obj, **more: Any) -> Obj:
    status = {"capacity": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}
    return {"name": name, **more, "template": {"metadata": {"labels": labels}, "status": status}}


LISTED = a_group("listed", "4", {"node.kubernetes.io/instance-type": "m5.xlarge", "to": "listed"}, maxSize=9)
BIG = a_group("big", "8", {"big": "yes", "to": "big"})
FIXED = a_group("fixed", "4", {"to": "fixed"}, price="1.5")
UNKNOWN = {"name": "unknown"}
#: 8 CPUs and 16 GiB by the formula, doubled by the overlay.
OF_BIG = 2 * (8 * 33_174 + 16 * 4_446)


class Files:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.write(TABLE, {"table": "prices.csv"})

    def write(self, table: str, prices: Obj | None, *groups: Obj) -> None:
        pods = [
            pod_manifest(f"{to}-{n}", cpu="3", nodeSelector={"to": to}) for to in ("listed", "big", "fixed") for n in range(3)
        ]
        node = node_manifest(
            "n", cpu="4", labels=node_labels("n", "listed"), status={"conditions": [{"type": "Ready", "status": "True"}]}
        )
        items = [*pods, node, OVERLAY]
        autoscaler = {
            "nodeGroups": list(groups or (LISTED, BIG, FIXED, UNKNOWN)),
            **({} if prices is None else {"prices": prices}),
        }
        (self.folder / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        (self.folder / "config.json").write_text(json.dumps({**HEAD, "autoscaler": autoscaler}))
        (self.folder / "prices.csv").write_text(table)

    def run(self, *command: str, code: int = 0) -> tuple[str, str]:
        files = ("--cluster", str(self.folder / "cluster.json"), "--config", str(self.folder / "config.json"))
        assert main([*command, *files]) == code
        out, err = self.capsys.readouterr()
        return out, err


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Files:
    return Files(tmp_path, capsys)


def amount(text: str, basis: str) -> Obj:
    return {"perHour": text, "currency": "USD", "basis": basis}


def test_a_plan_says_what_it_costs_by_group_and_in_all(files: Files) -> None:
    answer = json.loads(files.run("simulate", "scale-up", "-o", "json")[0])
    found = {group["name"]: (group["newNodes"], group.get("price"), group.get("cost")) for group in answer["groups"]}
    of_big = f"{OF_BIG / 1e6:.6f}"
    assert found == {
        "listed": (3, amount("0.192", "table"), amount("0.576", "table")),
        "big": (2, amount(of_big, "formula"), amount(f"{2 * OF_BIG / 1e6:.6f}", "formula")),
        "fixed": (3, amount("1.50", "configured"), amount("4.50", "configured")),
        "unknown": (0, None, None),
    }
    assert answer["cost"] == amount(f"{(3 * 192_000 + 2 * OF_BIG + 3 * 1_500_000) / 1e6:.6f}", "formula")


def test_the_table_for_people_shows_the_money_too(files: Files) -> None:
    lines = files.run("simulate", "scale-up", "-o", "table")[0].splitlines()
    assert lines[0].split("  ")[0] == "GROUP"
    assert [word for word in lines[1].split(" ") if word] == ["listed", "3", "3", "0.192", "USD", "0.576", "USD", "table"]
    assert [word for word in lines[4].split(" ") if word] == ["unknown", "0", "0"]
    assert lines[5].startswith("cost of the new nodes: ")
    assert lines[5].endswith(" USD an hour (formula)")


def test_without_prices_an_answer_has_no_money(files: Files) -> None:
    files.write(TABLE, None, LISTED, BIG)
    out = files.run("simulate", "scale-up", "-o", "json")[0]
    assert not any(word in out for word in ("price", "cost", "perHour"))
    assert "HOUR" not in files.run("simulate", "scale-up", "-o", "table")[0]
    assert "price" not in json.loads(files.run("explain", "node", "n", "-o", "json")[0])["facts"]


@pytest.mark.parametrize("command", [("simulate", "scale-up"), ("simulate", "scale-down"), ("explain", "group", "listed")])
def test_a_bad_table_is_named(files: Files, command: tuple[str, ...]) -> None:
    files.write(TABLE + "c5.large,,,x,\n", {"table": "prices.csv"})
    err = files.run(*command, code=2)[1]
    assert 'prices.csv: line 3, price per hour: got "x", want a decimal number from 0 to 1000000' in err


def test_a_node_and_a_group_are_explained_with_their_cost(files: Files) -> None:
    facts = json.loads(files.run("explain", "node", "n", "-o", "json")[0])["facts"]
    assert facts["price"]["basis"] == "formula"
    facts = json.loads(files.run("explain", "group", "listed", "-o", "json")[0])["facts"]
    assert facts["cost"] == {
        "node": amount("0.192", "table"),
        "present": facts["cost"]["present"],
        "planned": amount("0.576", "table"),
    }
    assert facts["cost"]["present"]["basis"] == "formula"
    out = files.run("explain", "group", "listed", "-o", "table")[0]
    assert "a new node costs 0.192 USD an hour (table)" in out
    assert "the planned nodes cost 0.576 USD an hour (table)" in out


def test_the_service_does_not_start_with_a_bad_table(files: Files) -> None:
    files.write(TABLE.replace("0.192", "cheap"), {"table": str(files.folder / "prices.csv")})
    assert main(["serve", "--config", str(files.folder / "config.json")]) == 2
    assert 'prices.csv: line 2, price per hour: got "cheap", want a decimal number' in files.capsys.readouterr().err


def test_an_overlay_that_cannot_be_read_costs_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path, capsys)
    cluster = tmp_path / "cluster.json"
    odd = {**OVERLAY, "metadata": {"name": "odd"}, "spec": {"priceAdjustment": "cheaper"}}
    found = json.loads(cluster.read_text())
    cluster.write_text(json.dumps({**found, "items": [odd, *found["items"]]}))
    out, err = files.run("simulate", "scale-up", "-o", "json")
    assert all(group["newNodes"] for group in json.loads(out)["groups"] if group["name"] != "unknown")
    assert "prices by NodeOverlay odd" in out + err
    assert "want a signed number or percentage" in out + err
