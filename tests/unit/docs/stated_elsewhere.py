"""Texts of pages whose numbers are those of tests, benches, the recipes of deploy/, other programs, and published results."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from slackwater.app.settings import Settings
from slackwater.fit.score_curve import MAX_EXTENDER_SCORE
from slackwater.sandbox import demo_script
from slackwater.sandbox.embedded import queue, scheduler
from slackwater_protocol.agent import LARGEST_CPU
from slackwater_protocol.agent_versions import _NAMES
from slackwater_protocol.units import LARGEST
from tests.bench.karpenter import inputs, play
from tests.bench.simulation import bills
from tests.bench.worth import workload
from tests.loads import shapes
from tests.unit.docs.page_numbers import Stated, stated
from tests.unit.layout.test_shape import MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION


def source(path: str, pattern: str) -> list[float]:
    """The numbers in the groups of a pattern that occurs once in a file: one that reads its environment, or is no Python."""
    [found] = re.findall(pattern, Path(path).read_text(), re.MULTILINE)
    values = [float(re.sub("[_,]", "", value)) for value in ([found] if isinstance(found, str) else found)]
    return [int(value) if value.is_integer() else value for value in values]


# --- tests and tools ------------------------------------------------------------------------------------------------------

_CLUSTER: Final = "tests/cluster"
_CHAOS: Final = source(f"{_CLUSTER}/controllers/test_chaos.py", r'"SLACKWATER_TEST_CHAOS", "(\d+)s"')
_EVERY_SIZE: Final = f"{_CLUSTER}/test_pods_of_every_size.py"
_SCALE_DOWN: Final = f"{_CLUSTER}/controllers/test_scale_down.py"
_BROWSER: Final = (
    Path("tests/browser/test_page.py").read_text().partition("the_overview_is_quick_and_small")[2].partition("\nasync def")[0]
)
_PLAY: Final = "tests/faults/play.py"


def _in_the_browser(pattern: str) -> int:
    [found] = re.findall(pattern, _BROWSER)
    return int(found.replace("_", ""))


def _default(path: str, name: str) -> int:
    """A whole number that a module of tests assigns to a constant."""
    [value] = source(path, rf"^{name}(?:: Final)? = ([\d_]+)\b")
    return int(value)


_RUFF: Final = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["ruff"]
_AFTER: Final = sum(
    float(each) for each in re.findall(r"[\d.]+", Path(_PLAY).read_text().split("_CALM_SECONDS: Final = ")[1].split("\n")[0])
)

TESTS: Final[tuple[Stated, ...]] = (
    stated("CONTRIBUTING", "`make cluster` runs {} seconds of it", *_CHAOS),
    stated("faults", "`make cluster` plays {} seconds of it", *_CHAOS),
    stated(
        "faults",
        "which runs every {} s here",
        *source(f"{_CLUSTER}/controllers/test_chaos.py", r'"audit": \{"interval": "(\d+)s"'),
    ),
    stated("CONTRIBUTING", "{} columns", _RUFF["line-length"]),
    stated(
        "CONTRIBUTING",
        "Functions of at most {} lines, files of at most {}, mostly half of that; complexity at most {}.",
        MOST_LINES_OF_A_FUNCTION,
        MOST_LINES_OF_A_FILE,
        _RUFF["lint"]["mccabe"]["max-complexity"],
    ),
    stated(
        "CONTRIBUTING",
        "if a plug-in is below {:g} % of the pairs",
        100 * source("tests/oracle/counts.py", r"^_SHARE = ([\d.]+)")[0],
    ),
    stated("CONTRIBUTING", "for {} s at most", *source("tests/support/fakeapi.py", r"was_asked\(.*seconds: float = (\d+)")),
    stated("SECURITY", "none may take longer than {} s", *source("tests/fuzz/running.py", r"^_SECONDS: Final = ([\d.]+)")),
    stated("SECURITY", "on a real API server with {:,} nodes", *source(_EVERY_SIZE, r"^_NODES: Final = ([\d_]+) if")),
    stated("SECURITY", "may take {} ms of CPU", *source(_EVERY_SIZE, r"^_TURN_MS: Final = ([\d.]+)")),
    stated("SECURITY", "within {:g} % of what it was", 100 * source(_EVERY_SIZE, r"^_STAYS: Final = ([\d.]+)")[0]),
    stated(
        "SECURITY",
        "CI creates {} such pods on {} nodes",
        *source(_EVERY_SIZE, r'"SLACKWATER_FUZZ_PODS", "(\d+)"'),
        *source(_EVERY_SIZE, r"^_NODES: Final = .* else (\d+)"),
    ),
    stated(
        "faults", "a write arrives up to {} s after", *source("tests/faults/wire.py", r"^_LATEST_SECONDS: Final = ([\d.]+)")
    ),
    stated("faults", "is down for up to {} s", *source(_PLAY, r"_go_dark, self._faults.uniform\([\d.]+, ([\d.]+)\)")),
    stated("faults", "for up to {} s every write", *source(_PLAY, r"_go_slow, self._faults.uniform\([\d.]+, ([\d.]+)\)")),
    stated(
        "faults", "silent for up to {} s", *source("tests/faults/tempers.py", r"^_LONGEST_SILENCE_SECONDS: Final = ([\d.]+)")
    ),
    stated("faults", "when a lease of {} s has expired", *source(_PLAY, r"^_LEASE_SECONDS: Final = ([\d.]+)")),
    stated("faults", "wrong by up to {} s", *source("tests/faults/provider_faults.py", r"^    skew=([\d.]+)")),
    stated("faults", "at the latest {:g} seconds after the storm", _AFTER),
    stated("faults", "plays seeds {} to {}", *source("Makefile", r"tests.faults --seed (\d+) --seeds (\d+)")),
    stated("scaledown", "{} clusters in CI", _default("tests/oracle/test_drains.py", "CLUSTERS")),
    stated("scaledown", "{} nodes and {} pods in CI", *source(_SCALE_DOWN, r"^_SIZES: Final = \(\((\d+), (\d+),")),
    stated(
        "scaledown", "The load falls to {:g} %", 100 * source(f"{_CLUSTER}/support/fallen.py", r"^LEFT: Final = ([\d.]+)")[0]
    ),
    stated("scaledown", "and {} new pods need the room", _default(_SCALE_DOWN, "BURST")),
    stated("CONTRIBUTING", "under {} load shapes", len([*shapes.all_shapes(seed=1), *shapes.further_shapes(seed=1)])),
    stated(
        "autoscaler",
        "with {} nodes and {:,} pods, and {} nodes by `clusterapi`",
        *source(f"{_CLUSTER}/test_scale_up.py", r'"SLACKWATER_TEST_SCALE_UP", "(\d+),(\d+)"'),
        *source(f"{_CLUSTER}/test_scale_up.py", r"^    nodes, per_node, batch = (\d+),"),
    ),
    stated(
        "dashboard",
        "with {:,} nodes and {:,} pending pods",
        _in_the_browser(r"a_large_state_machine\((\d+),"),
        _in_the_browser(r"range\(([\d_]+)\):\n        message"),
    ),
    stated("dashboard", "must come within {:g} s", _in_the_browser(r"painted < (\d+)") / 1000),
    stated("dashboard", "an update take less than {} ms", _in_the_browser(r"\] < (\d+)")),
    stated("dashboard", "use less than {} MB of", _in_the_browser(r"heap < (\d+)")),
)

# --- benches --------------------------------------------------------------------------------------------------------------

_THROUGHPUT: Final = "tests/bench/scheduler_throughput.py"
_SIZES: Final = source(_THROUGHPUT, r"^_SIZES: Final = \((\d+), (\d+), (\d+), (\d+)\)")


def _scored(nodes: int) -> int:
    """How many nodes kube-scheduler scores by default, as the simulated one does."""
    return max(scheduler._LEAST_SAMPLE, nodes * max(50 - nodes // 125, 5) // 100)


BENCHED: Final[tuple[Stated, ...]] = (
    stated("benchmarks", "in clusters of {}, {}, {:,} and {:,} nodes", *_SIZES),
    stated("extender", "({}, {}, {:,} and {:,} nodes;", *_SIZES),
    stated(
        "benchmarks",
        "all up to {}, {} of {:,}, {} of {:,}.",
        *(_scored(100), _scored(1000), 1000, _scored(5000), 5000),
    ),
    stated(
        "benchmarks",
        "at {}, {} and {} times the rate",
        *source(_THROUGHPUT, r'_RATES: .*"far below", (.*?)\), .*", (.*?)\), .*", (.*?)\)'),
    ),
    stated("benchmarks", "Calls alternate in blocks of {};", _default("tests/bench/filter_latency.py", "_BLOCK")),
    stated(
        "benchmarks",
        "cost more than {} times the bound in the median, more than {} times where the bound uses at least {} nodes",
        *(bills.MEDIAN, bills.WORST, bills.LARGE),
    ),
    stated("benchmarks", "or more than {:g} nodes above it", bills.NODES),
    stated(
        "benchmarks",
        "the same {} types of {} to {} CPU",
        len(inputs.VARIANTS),
        *(bound(round(each.allocatable[0], -3) // 1000 for each in inputs.VARIANTS) for bound in (min, max)),
    ),
    stated("benchmarks", "({}m and {}Mi)", inputs.RESERVED[0], inputs.RESERVED[1] >> 20),
    stated(
        "benchmarks",
        "{} Deployments of {} pods ({:,} CPU and {:,} GiB together)",
        len(inputs.WORKLOADS),
        inputs.WORKLOADS[0].count,
        round(sum(each.amounts[0] * each.count for each in inputs.WORKLOADS) / 1000),
        round(sum(each.amounts[1] * each.count for each in inputs.WORKLOADS) / 2**30),
    ),
    stated("benchmarks", "{:.0f} % of each Deployment's pods end", 100 * (1 - play.STAYING)),
    stated("benchmarks", "no pod has been pending for {:g} s", play.REST_SECONDS),
    stated("benchmarks", "kube-scheduler alone fills {} nodes of four types", workload.NODES),
    stated(
        "benchmarks", "come, gone or moved for {:g} s", *source("tests/bench/worth/__main__.py", r"^_REST_SECONDS.* = ([\d.]+)")
    ),
    stated(
        "benchmarks",
        "while {} more important ones preempt",
        *source("tests/bench/preemption_throughput.py", r"preemptors = .* else (\d+)"),
    ),
    stated(
        "benchmarks",
        "the same {} pods finding room",
        *source("tests/bench/preemption_throughput.py", r"preemptors = .* else (\d+)"),
    ),
    stated(
        "benchmarks", "{:,} agents on the same event loop", *source("tests/bench/agents.py", r"agents = .* else ([\d_]+)\)")
    ),
    stated(
        "benchmarks",
        "{:,} agent requests a second over {} connections",
        *source("tests/bench/agents.py", r"^_RATE, _FILTERS = ([\d.]+),"),
        _default("tests/bench/agents.py", "_CONNECTIONS"),
    ),
    stated(
        "benchmarks",
        "{} filter calls a second over {:,} names",
        *source("tests/bench/agents.py", r"^_RATE, _FILTERS = [\d.]+, ([\d.]+)"),
        *source("tests/bench/agents.py", r"nodes, agents = options.nodes or (\d+)"),
    ),
    stated(
        "benchmarks",
        "filter over {:,} node names in one call",
        *source("tests/bench/filter_latency.py", r"nodes = options.nodes or (\d+)$"),
    ),
    stated(
        "benchmarks",
        "affect filter over {:,} names",
        *source("tests/bench/dashboard.py", r"nodes = options.nodes or .* else (\d+)\)"),
    ),
    stated(
        "benchmarks",
        "`make scale` ({:,} nodes, {:,} pods;",
        *(_default("tests/bench/scale.py", name) for name in ("_NODES", "_PODS")),
    ),
)

# --- deploy and other programs --------------------------------------------------------------------------------------------

_VALUES: Final = yaml.safe_load(Path("deploy/chart/values.yaml").read_text())["resources"]
_RECIPE: Final = Path("deploy/image/recipe.py").read_text()
_ALERTS: Final = "deploy/monitoring/alerts.yaml"
_SLOW_FILTER: Final = source(_ALERTS, r'quantile\((0\.\d+), .*verb="filter"\}\[5m\]\) and .*?\)\) > ([\d.]+)$')

OTHERS: Final[tuple[Stated, ...]] = (
    stated("install", "| user | {},", *source("deploy/image/recipe.py", r'^USER: Final = "(\d+):')),
    stated("install", "of Debian {},", *source("deploy/Dockerfile", r"^FROM debian:(\d+)-slim AS build")),
    stated("install", "The defaults are {}, {} and a limit of {}.", *_VALUES["requests"].values(), *_VALUES["limits"].values()),
    stated("releasing", "CycloneDX {} and", *source("deploy/sbom/cyclonedx.py", r"not valid CycloneDX ([\d.]+)")),
    stated("releasing", "SPDX {}.", *source("deploy/sbom/spdx.py", r'"SPDX-([\d.]+)"')),
    stated(
        "turning-off",
        "for up to {:g} minutes",
        source("deploy/chart/templates/cleanup.yaml", r"activeDeadlineSeconds: (\d+)")[0] / 60,
    ),
    stated(
        "operations",
        "kube-scheduler's metrics ({})",
        *source("deploy/chart/templates/deployment.yaml", r"name: scheduler\n +containerPort: (\d+)"),
    ),
    stated(
        "operations",
        "The share of errors should stay below {}.",
        *source(_ALERTS, r'operation="preemption",result="error"\}\[30m\]\) and .*?\) > ([\d.]+)'),
    ),
    stated("operations", "the {:g}th percentile", 100 * _SLOW_FILTER[0]),
    stated("operations", 'verb="filter"}}` above {:g} ms', 1000 * _SLOW_FILTER[1]),
    stated("runbooks", "takes longer than {:g} ms", 1000 * _SLOW_FILTER[1]),
    stated("operations extender", "back-off of 1 to {:g} s", queue._BACKOFF.longest_seconds),
    stated("quickstart", "a few every {:g} seconds", demo_script._CHURN_SECONDS),
    stated("extender", "an integer from 0 to {}", MAX_EXTENDER_SCORE),
    stated("extender", "does not clamp a score above {} | scores are 0 to {};", MAX_EXTENDER_SCORE, MAX_EXTENDER_SCORE),
    *(stated("agents", f"| {{}} | {name} |", _NAMES.index(name)) for name in ("v3.0", "v4.0", "v5.0")),
    stated("agents", "CPU {} bits of milliCPU, memory {} bits", LARGEST_CPU.bit_length(), LARGEST.bit_length()),
    stated("agents", "(RFC {})", *source("openapi/agent.yaml", r"RFC (\d+)")),
)

# --- statuses -------------------------------------------------------------------------------------------------------------


@cache
def _paths(document: str) -> dict[str, Any]:
    """The paths of an OpenAPI document, which takes a second to read."""
    return dict(yaml.safe_load(Path(f"openapi/{document}.yaml").read_text())["paths"])


def _responses(document: str, path: str) -> dict[str, str]:
    """The descriptions of a path's answers by status, by the OpenAPI document."""
    [operation] = _paths(document)[path].values()
    return {status: answer["description"] for status, answer in operation["responses"].items()}


def _status(document: str, path: str, words: str) -> str:
    [status] = (status for status, said in _responses(document, path).items() if words in said)
    return status


AGENT: Final = _responses("agent", "/")
_CANCEL, _SIMULATE, _NODE = "/drains/{node}/cancel", "/simulate/scale-up", "/explain/nodes/{name}"

STATUSES: Final[tuple[Stated, ...]] = (
    *(
        stated("agents", "| {} | " + said, _status("agent", "/", words))
        for said, words in (
            ("not POST; not JSON", "breaks a rule of the protocol"),
            ("authentication is configured", "showed nothing"),
            ("the caller is authenticated, but", "may not speak for this pod"),
            ("the pod is unknown", "The pod is not known"),
            ("the body did not arrive", "The body did not come in time"),
            ("a fault of the service", "A fault of the service"),
            ("not everything is listed yet", "Not now: ask again"),
        )
    ),
    stated("SECURITY", "Requests for pods of other nodes get {}", _status("agent", "/", "may not speak for this pod")),
    stated(
        "scaledown",
        "{}: it is rolled back; {}: the node is not being removed; {}: the provider was already asked",
        *(_status("ops", _CANCEL, words) for words in ("Successful", "is not being removed", "was asked to delete it")),
    ),
    stated("explain", "answers {} with the name of an object that does not exist", _status("ops", _NODE, "no such object")),
    stated("explain", "and {} until everything was listed once", _status("ops", _NODE, "Not everything was listed")),
    stated("simulate", "refused with its position ({}), a body", _status("ops", _SIMULATE, "supposes what cannot be")),
    stated("simulate", "MiB with {}.", _status("ops", _SIMULATE, "larger than")),
    stated("dashboard", "the next one gets {}", _status("ops", "/dashboard/events", "listeners are there already")),
    stated("operations", "`/readyz` answers {}", _status("ops", "/readyz", "Successful")),
    stated("operations", "Until then: {} with what is missing", _status("ops", "/readyz", "not been listed once")),
)

# --- published ------------------------------------------------------------------------------------------------------------

#: The generated part of docs/benchmarks.md: `make bench` writes its figures.
_RESULTS: Final = Path("docs/benchmarks.md").read_text().partition("## Results")[2].partition("## How it is measured")[0]
_PENDING: Final = 22_000
_BELOW: Final = 7  #: the column `below: bind p50 (ms)`


def row(name: str) -> list[float]:
    """The numbers of a row of the results, without goals."""
    line = next(line for line in _RESULTS.splitlines() if line.startswith(f"| {name} |"))
    return [float(cell.split()[0].replace(",", "")) for cell in line.strip("| ").split("|")[1:] if re.match(r" *[\d.]", cell)]


def _adr(number: int, pattern: str) -> list[float]:
    [page] = Path("docs/adr").glob(f"{number:04}-*.md")
    return source(str(page), pattern)


_RATIO: Final = {nodes: row(f"{nodes} nodes: slackwater / kube-scheduler alone")[0] for nodes in _SIZES}
_SMALL: Final = sorted(_RATIO[nodes] for nodes in _SIZES[:2])
_FILTERED: Final = source("docs/benchmarks.md", r"^nodes (\d+), calls of each kind")
_PLANNED: Final = row(f"plan: {_PENDING:,} pending x 10 groups, 200 kinds")[0]
_RATES: Final = {
    name: row(f"5000 nodes: {name}")[0]
    for name in ("kube-scheduler alone", "kube-scheduler alone, few nodes", "slackwater", "bind: true, all nodes")
}
_SOONER: Final = {
    nodes: row(f"{nodes} nodes: slackwater")[_BELOW] < row(f"{nodes} nodes: kube-scheduler alone")[_BELOW] for nodes in _SIZES
}
_ANY_NODE: Final = sorted(
    _adr(217, r"^\| 20 \| [\d.]+ \(.*?\) \| ([\d.]+)") + _adr(217, r"^\| 100 \| [\d.]+ \(.*?\) \| ([\d.]+)")
)

PUBLISHED: Final[tuple[Stated, ...]] = (
    stated(
        "README extender",
        "{:.1f} times as many pods a second as alone at {:,} nodes, {:.1f} times as many at {:,}, "
        "and {:.1f} to {:.1f} times as many at {} and {}",
        *(_RATIO[5000], 5000, _RATIO[1000], 1000, *_SMALL, *_SIZES[:2]),
    ),
    stated("README", "A call with {:,} node names takes about a millisecond", *_FILTERED),
    stated("README", "plans nodes for {:,} pending pods among ten groups in {:.2f} s", _PENDING, _PLANNED),
    stated(
        "README",
        "0 differences on {} generated clusters",
        *re.findall(r"^\| placement, clusters \| ([\d,]+), 0 differ \|", Path("docs/versions.md").read_text(), re.MULTILINE),
    ),
    stated(
        "index",
        "**{:.1f} ms** to filter {:,} nodes for a pod ([p99: {:.1f} ms]",
        row("filter, all fit: slackwater")[0],
        *_FILTERED,
        row("filter, all fit: slackwater")[1],
    ),
    stated("index", "**{:.2f} s** to plan nodes for {:,} pending pods among ten groups", _PLANNED, _PENDING),
    stated("index", "**{:.1f} to {:.1f} times** the pods a second", min(_RATIO.values()), max(_RATIO.values())),
    stated("index", "slower at {} and {} nodes, faster at {:,}", *(nodes for nodes in _SIZES if _RATIO[nodes] < 1), _SIZES[-1]),
    stated(
        "benchmarks",
        "pods of {:.0f} kB that the API server created",
        source("docs/benchmarks.md", r"bytes of a pod (\d+)\.")[0] / 1000,
    ),
    stated("extender", "in clusters of {} to {:,} nodes", _SIZES[0], _SIZES[-1]),
    stated("extender", "makes it slower, too: {} to {} times", *_ANY_NODE),
    stated(
        "extender",
        "wait less than with kube-scheduler alone at {:,} and {:,} nodes, and longer at {} and {}.",
        *(nodes for nodes in _SIZES if _SOONER[nodes]),
        *(nodes for nodes in _SIZES if not _SOONER[nodes]),
    ),
    stated(
        "extender",
        "`extender.bind: true` {:.0f} pods a second were bound at {:,} nodes, and {:.0f} by kube-scheduler alone",
        *(_RATES["bind: true, all nodes"], 5000, _RATES["kube-scheduler alone"]),
    ),
    stated(
        "extender",
        "{:.0f} pods a second at {:,} nodes, where kube-scheduler with Slackwater bound {:.0f}",
        *(_RATES["kube-scheduler alone, few nodes"], 5000, _RATES["slackwater"]),
    ),
    stated("extender", "{} %, and {} at least", Settings().extender.percentage_of_nodes_to_score, scheduler._LEAST_SAMPLE),
    stated("extender", "which takes {} % to {} %", _scored(1_000_000) // 10_000, 50),
    stated("install", "{} MB more compressed", *_adr(280, r"grows by ([\d.]+) MB compressed")),
    stated("aws", "{} MiB of memory more", *_adr(280, r"(\d+) MiB of memory where")),
    stated("install", "{} MB compressed, {} MB unpacked", *_adr(199, r"(\d+) MB compressed, (\d+) MB unpacked")),
    stated("dashboard", "at {} and {:,} px", *_adr(210, r"at (\d+) and at (1,440) px")),
)


# --- measured by hand -----------------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """Figures that no file records. `command` measured them on `date`, on two cores."""

    stated: Stated
    command: str
    date: str


_FIRST_SYNC: Final = "python -m tests.bench --only first-sync"
_LARGE: Final = (5_000, 150_000)

MEASURED: Final[tuple[Measured, ...]] = (
    Measured(
        stated("benchmarks", "every fifth of {:,} nodes has just come", _LARGE[0]),
        "python -m tests.bench --only state-machine-events --quick",
        "2026-11-27",
    ),
    Measured(
        stated(
            "benchmarks", "was {} ms of CPU, and {} ms without rooms; that of the pods with room was {} ms", 0.62, 0.68, 0.35
        ),
        "python -m tests.bench --only state-machine-events --quick",
        "2026-11-27",
    ),
    Measured(
        stated(
            "autoscaler",
            "p99 was {} ms while plans were made and {} ms otherwise, over {:,} names, with {:,} running and {:,} pending",
            5.9,
            3.4,
            *_LARGE,
            _PENDING,
        ),
        "python -m tests.bench --only autoscaler-loop",
        "2026-11-22",
    ),
    Measured(stated("autoscaler", "were ready after {} s", 104), "make cluster SCALE_UP=1 NODES=500 PODS=20000", "2026-11-22"),
    Measured(
        stated(
            "scaledown",
            "With {} nodes and {:,} pods on two cores, {} nodes were removed by {} evictions in {} s",
            300,
            6000,
            120,
            701,
            192,
        ),
        "make cluster SCALE_DOWN=1 NODES=300 PODS=6000",
        "2026-11-23",
    ),
    Measured(
        stated("install", "| {} / {:,} | {} MiB | {} s | {} cores | {} |", 100, 2000, 166, 1.3, 0.01, 24),
        f"{_FIRST_SYNC} --nodes 100 --pods 2000",
        "2026-11-25",
    ),
    Measured(
        stated("install", "| {} / {:,} | {} MiB | {} s | not measured |", 500, 10_000, 178, 1.6),
        f"{_FIRST_SYNC} --nodes 500 --pods 10000",
        "2026-11-25",
    ),
    Measured(
        stated("install", "| {:,} / {:,} | {} MiB | {} s | {} cores | {} |", *_LARGE, 354, 14.6, 0.02, 11),
        "make scale",
        "2026-11-25",
    ),
    Measured(
        stated(
            "install",
            "| {:,} / {:,}, with the autoscaler and its planning process | {} MiB + {} MiB | {} s | {} to {} cores | {} |",
            *_LARGE,
            390,
            169,
            14.9,
            0.05,
            0.1,
            46,
        ),
        "make scale",
        "2026-11-25",
    ),
    Measured(stated("install", "| up to {} | `{{cpu: 200m,", 500), f"{_FIRST_SYNC} --nodes 500 --pods 10000", "2026-11-25"),
    Measured(stated("install", '| {:,} | `{{cpu: "1",', _LARGE[0]), "make scale", "2026-11-25"),
)

STATED: Final = (*TESTS, *BENCHED, *OTHERS, *STATUSES, *PUBLISHED, *(each.stated for each in MEASURED))
