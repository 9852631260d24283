"""`slackwater worth`: the sums of the report, its page, and what it answers to wrong arguments."""

import json
import re
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.main import main
from tests.support.manifests import GROUP, Obj, node_labels, node_manifest, owned_by, pod_manifest

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
TABLE = "instance type,price per hour\nm5.xlarge,0.20\nr5.xlarge,0.30\n"
EVIL = '<script>alert("&")</script>'


def a_node(name: str, kind: str, *, pool: str = "pool", **labels: str) -> Obj:
    found = {**node_labels(name, pool), "node.kubernetes.io/instance-type": kind, **labels}
    return node_manifest(name, cpu="4", labels=found, status=READY)


def a_pod(name: str, on: str, *, cpu: str = "1", owner: bool = True, **meta: Any) -> Obj:
    more = owned_by("web") if owner else {}
    where: Obj = {"nodeSelector": {GROUP: "pool"}} if owner else {}
    return pod_manifest(name, cpu=cpu, on=on, meta={"uid": name, **more, **meta}, status=READY, **where)


#: Of the pool two nodes may go; of the other group none, since a pod has no controller.
CLUSTER = [
    a_node("n0", "m5.xlarge"),
    a_node("n1", "m5.xlarge", **{"topology.kubernetes.io/zone": "a"}),
    a_node("n2", "r5.xlarge", **{"eks.amazonaws.com/capacityType": "SPOT"}),
    a_node("n3", "r5.xlarge", pool="other"),
    *(a_pod(f"web-{at}", f"n{at}", labels={"team": "x" if at else "y"}) for at in range(3)),
    a_pod("bare", "n3", owner=False, namespace="ml"),
]


class Run:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.prices = folder / "prices.csv"
        self.prices.write_text(TABLE)

    def __call__(self, *options: str, items: list[Obj] | None = None, code: int = 0) -> tuple[str, str]:
        file = self.folder / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER if items is None else items}))
        try:
            status = main(["worth", "--cluster", str(file), *options])
        except SystemExit as end:
            status = int(str(end.code))
        assert status == code
        out, err = self.capsys.readouterr()
        return out, err

    def json(self, *options: str, items: list[Obj] | None = None) -> Any:
        return json.loads(self(*options, "-o", "json", items=items)[0])


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capsys)


def money(found: Any, *path: str) -> Decimal:
    for key in path:
        found = found[key]
    return Decimal(found["perHour"])


def test_every_part_adds_up_to_the_whole(run: Run) -> None:
    answer = run.json("--prices", str(run.prices), "--by-label", "team")
    total = answer["total"]
    assert (total["now"]["nodes"], total["end"]["nodes"]) == (4, 4 - answer["rounds"]["removed"])
    assert money(total, "now", "cost") == Decimal("1.00")
    assert money(answer, "saved") == money(total, "now", "cost") - money(total, "end", "cost") > 0
    assert answer["basis"] == "table"
    for rows in answer["by"].values():
        for when in ("now", "end"):
            assert sum(row[when]["nodes"] for row in rows) == total[when]["nodes"]
            assert sum(money(row, when, "cost") for row in rows) == money(total, when, "cost")
    for shares in (answer["namespaces"], answer["label"]):
        for when, idle in (("now", "idleNow"), ("end", "idleEnd")):
            whole = sum(money(share, when) for share in shares["shares"]) + money(shares, idle)
            assert whole == money(total, when, "cost")
    assert sum(money(each, "cost") for each in answer["stays"]) == money(total, "end", "cost")
    assert sum(each["nodes"] for each in answer["stays"]) == total["end"]["nodes"]
    assert money(answer, "bound") <= money(total, "end", "cost")
    assert {share["name"] for share in answer["label"]["shares"]} == {"", "x", "y"}


def test_what_waiting_pods_need_is_not_what_is_saved(run: Run) -> None:
    """Two nodes go, one pod that waits fits on a node, and one gets a new node."""
    waiting = [pod_manifest(f"wait-{at}", cpu="3", nodeSelector={GROUP: "other"}, meta={"uid": f"w{at}"}) for at in range(2)]
    answer = run.json("--prices", str(run.prices), items=[*CLUSTER, *waiting])
    total = answer["total"]
    assert money(answer, "growth") == Decimal("0.30")
    assert money(answer, "saved") == money(run.json("--prices", str(run.prices)), "saved") > 0
    assert money(total, "now", "cost") - money(total, "end", "cost") == money(answer, "saved") - money(answer, "growth")
    out, _ = run("--prices", str(run.prices), items=[*CLUSTER, *waiting])
    lines = out.splitlines()
    assert lines[0].startswith("saved in 30 days: ")
    wait = "1 pod without a node now, 0 at the end"
    assert lines[1].startswith(f"growth in 30 days: 216 USD (for pods that wait, minima and slack: {wait}")
    assert "growth in" not in run("--prices", str(run.prices))[0]


def test_the_horizon_multiplies_the_hour(run: Run) -> None:
    for text, hours in (("30d", 720), ("12h", 12)):
        cost = run.json("--prices", str(run.prices), "--horizon", text)["total"]["now"]["cost"]
        assert Decimal(cost["inHorizon"]) == hours * Decimal(cost["perHour"])


def test_what_keeps_a_node_is_named_with_what_would_free_it(run: Run) -> None:
    stays = run.json("--prices", str(run.prices))["stays"]
    (bare,) = [each for each in stays if each["reason"] == "NotReplicated"]
    assert (bare["cause"], bare["nodes"], bare["cost"]["perHour"]) == ("Pod ml/bare", 1, "0.30")
    assert any("safe-to-evict" in text for text in bare["remedies"])
    assert [money(each, "cost") for each in stays] == sorted((money(each, "cost") for each in stays), reverse=True)


def test_without_prices_the_formula_counts_and_the_report_says_so(run: Run) -> None:
    out, _ = run()
    assert "priced by the formula" in out
    assert "no price is configured" in out
    assert run.json()["basis"] == "formula"


def test_the_page_is_one_file_in_which_every_text_is_escaped(run: Run) -> None:
    items = [*CLUSTER, a_pod("evil", "n3", labels={"team": EVIL}), a_node("n4", EVIL)]
    out, _ = run("-o", "html", "--by-label", "team", items=items)
    assert out.startswith("<!doctype html>")
    assert EVIL not in out
    assert "&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;" in out
    assert not re.search(r"<(script|link|img|iframe)|https?://|@import|url\(", out)
    assert "@media print" in out
    assert 'name="viewport"' in out


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (("--horizon", "30"), "want days or hours"),
        (("--horizon", "0d"), "want days or hours"),
        (("--kubeconfig", "k"), "--cluster: got it with --kubeconfig"),
        (("--prices", "/nowhere.csv"), "nowhere.csv"),
        (("-o", "yaml"), "invalid choice"),
        (("--by-label", ""), "want the key of a label"),
        (("--by-label", "a b"), "want the key of a label"),
    ],
)
def test_wrong_arguments_are_one_line_that_says_what_is_wanted(run: Run, options: tuple[str, ...], want: str) -> None:
    out, err = run(*options, code=2)
    assert out == ""
    assert want in err


def test_an_empty_name_is_not_the_present_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    monkeypatch.chdir(run.folder)  # where a cluster lies
    assert main(["worth", "--cluster", ""]) == 2
    assert '"": the file: got an empty name, want a file, a folder, or - for stdin' in run.capsys.readouterr().err


def test_a_file_without_a_node_or_a_pod_says_what_is_wanted(run: Run) -> None:
    """Without pods all nodes would seem to be empty, and everything saved."""
    assert "got no node, want nodes and pods" in run(items=[a_pod("web", "n0")], code=2)[1]
    assert "got no pod, want nodes and pods" in run(items=[a_node("n0", "m5.xlarge")], code=2)[1]


class PrometheusHandler(BaseHTTPRequestHandler):
    """Knows the use of one pod."""

    def do_GET(self) -> None:  # http.server's word
        value = "0.25" if "cpu" in self.path else str(2**30)
        result = [{"metric": {"namespace": "shop", "pod": "web-0"}, "value": [1, value]}]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), PrometheusHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_use_stands_beside_requests_and_changes_no_other_figure(run: Run, prometheus: str) -> None:
    before = run.json("--by-label", "team")
    after = run.json("--by-label", "team", "--prometheus", prometheus)
    by_namespace, by_label = after.pop("use")
    for key in before.keys() | after.keys():
        assert key == "rounds" or after[key] == before[key], key
    row = next(row for row in by_namespace["rows"] if row["name"] == "shop")
    assert (row["pods"], row["measured"]) == (3, 1)
    assert (row["cpuCoresRequested"], row["cpuCoresUsed"], row["memoryGibUsed"]) == (3.0, 0.25, 1.0)
    assert {row["name"]: row["measured"] for row in by_label["rows"]} == {"": 0, "x": 0, "y": 1}
    assert "Requests and use by namespace" in run("--prometheus", prometheus)[0]
    assert "Money, rounds and the bound are by requests alone." in run("--prometheus", prometheus, "-o", "html")[0]


def test_nodes_without_a_price_are_named(run: Run) -> None:
    """Or nobody finds out which row of the table is missing."""
    run.prices.write_text(TABLE.splitlines()[0] + "\nm5.xlarge,0.20\n")
    out, _ = run("--prices", str(run.prices))
    assert "no price is known for these, and the formula prices them: 2 nodes of r5.xlarge" in out
    run.prices.write_text(TABLE.splitlines()[0] + "\n")
    assert "2 nodes of m5.xlarge, 2 nodes of r5.xlarge" in run("--prices", str(run.prices))[0]
    run.prices.write_text(TABLE)
    assert "no price is known" not in run("--prices", str(run.prices))[0]
    assert "no price is known" not in run()[0], "it says that none is configured"


def test_small_amounts_are_not_rounded_to_nothing(run: Run) -> None:
    lines = run("--prices", str(run.prices), "--horizon", "1h")[0].splitlines()
    assert lines[1].startswith("cost in 1 h: 1.00 to 0.")
    assert "cost less than 0.00" not in lines[1]


def test_the_terminal_has_the_notes_of_tables_too(run: Run) -> None:
    out, _ = run("--prices", str(run.prices))
    assert "Each node is counted once, with the first rule that keeps it. Money is USD in 30 days." in out


def test_a_horizon_that_ends_too_early_is_said(run: Run) -> None:
    late = "autoscaler: {scaleDown: {unneededTime: 2h}}"
    file = run.folder / "slackwater.yaml"
    file.write_text(f"apiVersion: config.slackwater.dev/v1alpha1\nkind: SlackwaterConfiguration\n{late}\n")
    assert "the horizon ended while nodes could still come or go" in run("--config", str(file), "--horizon", "1h")[0]
    assert "the horizon ended" not in run("--config", str(file))[0]


def test_a_label_that_no_pod_has_is_said(run: Run) -> None:
    assert "no pod has the label teem" in run("--by-label", "teem")[0]
    assert "no pod has the label" not in run("--by-label", "team")[0]
