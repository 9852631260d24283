"""What `slackwater worth` says of a cluster, and what the service then does with it on a real control plane until it rests.

    python -m tests.bench.worth [--consolidation] [--size 1] [--rounds 1] [--keep FOLDER]
    python -m tests.bench.worth --consolidation --offline --size 10 --density 11

kube-scheduler fills a cluster of 500 nodes (`workload`; `--size` is a factor). Then `worth` plays its rounds, at the pace of
KWOK, and the service serves the same cluster. With `--consolidation` it replaces nodes, too. `--keep` is a folder for the
cluster, the configuration and the service's log of each round. With `--offline` the cluster is generated, and `worth` alone
plays, with the default times.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import orjson
import yaml

from slackwater.app.settings import loads
from tests.bench import contenders, machine
from tests.bench.karpenter.inputs import bill
from tests.bench.options import PATIENCE_SECONDS, BenchFailed, installed_service
from tests.bench.stage import NODES_PATH, Stage, a_stage
from tests.bench.worth.filled import filled
from tests.bench.worth.predict import Prediction
from tests.bench.worth.workload import DAEMONS_NAMESPACE, NAMESPACES, PRICES, Json, node_groups, nodes, path_of, workloads
from tests.cluster.support.audit_tail import AuditTail, Request
from tests.support.controlplane.build import build

#: Quick enough for a run of minutes, and the same for `worth` and for the service.
_SCAN_INTERVAL: Final = "5s"
_SCALE_DOWN: Final[Json] = {
    "unneededTime": "15s",
    "delayAfterAdd": "15s",
    "unremovableRecheckTime": "1m",
    "maxScaleDownParallelism": 20,
    "maxDrainParallelism": 10,
}
_CONSOLIDATION: Final[Json] = {"enabled": True, "interval": "10s", "minNodeAge": "0s"}
#: How long KWOK takes, in seconds.
_PACE: Final = {"pod_start": 1.0, "node_boot": 1.0, "node_removal": 1.0}
#: No node and no pod without one has changed for so long: longer than anything of the settings waits.
_REST_SECONDS: Final = 120.0
_RESTS_WITHIN_SECONDS: Final = 5400.0
#: kube-scheduler has bound what it can if nothing has changed for so long.
_FILLED_SECONDS: Final = 10.0
_LOOK_EVERY_SECONDS: Final = 1.0
_PODS: Final = "/api/v1/pods"
#: What `worth` reads, as `kubectl get ... -A -o json` prints it.
_READ: Final = (
    NODES_PATH,
    _PODS,
    "/api/v1/namespaces",
    *(f"/apis/apps/v1/{plural}" for plural in ("deployments", "replicasets", "statefulsets", "daemonsets")),
    "/apis/policy/v1/poddisruptionbudgets",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the service did. `micros`: of all nodes an hour. `until`: seconds to the last change."""

    nodes: int
    micros: int
    evictions: int
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One cluster: `nodes` and `micros` before, and after as predicted and as served."""

    nodes: int
    micros: int
    predicted: Prediction
    served: Served


def configuration(*, consolidation: bool, quick: bool = True) -> str:
    """The settings of the service and of `worth`. `quick`: with times that fit a run of minutes."""
    autoscaler = {
        "enabled": True,
        "expanders": ["price"],
        "nodeGroups": node_groups(),
        **({"scanInterval": _SCAN_INTERVAL, "scaleDown": _SCALE_DOWN} if quick else {}),
        **({"consolidation": _CONSOLIDATION if quick else {"enabled": True}} if consolidation else {}),
    }
    return yaml.safe_dump({"autoscaler": autoscaler})


async def a_round(size: float, seed: int, *, consolidation: bool, keep: Path | None) -> Round:
    """Fills a cluster, asks `worth`, and serves it until it rests. Raises BenchFailed."""
    text = configuration(consolidation=consolidation)
    async with a_stage(kwok=True, controllers=True, settings=loads(contenders.HEADER + text)) as stage:
        plane = stage.control_plane
        await _fill(stage, size, seed)
        files = stage.folder / "cluster.json", stage.folder / "slackwater-worth.yaml"
        files[0].write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": await _objects(stage)}))
        files[1].write_text(contenders.HEADER + text)
        micros, types = bill(await _items(stage, NODES_PATH), PRICES)
        predicted = await predict(*files, _PACE)
        print(json.dumps({"predicted": asdict(predicted)}), file=sys.stderr, flush=True)
        entrant = contenders.service(stage, installed_service(), more=text)
        audit = AuditTail(plane.audit_log)
        async with stage.running(entrant.launch) as process:
            began = anyio.current_time()
            await plane.start_scheduler(contenders.scheduler_config(entrant))
            try:
                changed = await _rests(stage, _REST_SECONDS, _RESTS_WITHIN_SECONDS)
            finally:
                _copy((*files, process.log, plane.audit_log), keep)
        served, kinds = bill(await _items(stage, NODES_PATH), PRICES)
        evictions = sum(_evicts(each) for each in audit.read())
        return Round(
            nodes=types.total(),
            micros=micros,
            predicted=predicted,
            served=Served(nodes=kinds.total(), micros=served, evictions=evictions, until=round(changed - began, 1)),
        )


def _copy(files: Iterable[Path], folder: Path | None) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, folder)


def _evicts(request: Request) -> bool:
    """Was a pod evicted that has to go elsewhere, so none of a DaemonSet?"""
    evicted = (request.verb, request.resource, request.status) == ("create", "pods/eviction", 201)
    return evicted and request.namespace != DAEMONS_NAMESPACE


async def _fill(stage: Stage, size: float, seed: int) -> None:
    """Creates the cluster, and has kube-scheduler fill it."""
    named = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    await stage.create("/api/v1/namespaces", named)
    await stage.create(NODES_PATH, nodes(size))
    await stage.until_nodes_ready()
    await stage.control_plane.start_scheduler(contenders.scheduler_config(None))
    for item in workloads(size, seed):
        await stage.create(path_of(item), [item])
    await _rests(stage, _FILLED_SECONDS, PATIENCE_SECONDS)
    await stage.control_plane.stop("kube-scheduler")


async def offline(size: float, density: int, *, consolidation: bool) -> Prediction:
    """What `worth` says of a generated cluster. Raises BenchFailed."""
    with TemporaryDirectory() as folder:
        cluster, config = Path(folder) / "cluster.json", Path(folder) / "slackwater.yaml"
        cluster.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": list(filled(size, 1, density))}))
        config.write_text(contenders.HEADER + configuration(consolidation=consolidation, quick=False))
        return await predict(cluster, config, {})


async def predict(cluster: Path, config: Path, pace: Json) -> Prediction:
    """What `worth` says, by a process of its own. Raises BenchFailed."""
    command = [sys.executable, "-m", "tests.bench.worth.predict", str(cluster), str(config), json.dumps(pace)]
    done = await anyio.run_process(command, stderr=None, check=False)
    if done.returncode:
        raise BenchFailed(f"worth ended with {done.returncode}, want 0")
    return Prediction(**json.loads(done.stdout))


async def _rests(stage: Stage, rest_seconds: float, within_seconds: float) -> float:
    """When the last node came or went, or the last pod got a node or lost it, by the clock of the event loop; after nothing has
    done so for as long as asked."""
    seen, changed_at, began = None, anyio.current_time(), anyio.current_time()
    while (now := anyio.current_time()) - began < within_seconds:
        there = {each["metadata"]["name"]: "deletionTimestamp" in each["metadata"] for each in await _items(stage, NODES_PATH)}
        on = {each["metadata"]["uid"]: each["spec"].get("nodeName") for each in await _items(stage, _PODS)}
        if (there, on) != seen:
            seen, changed_at = (there, on), now
        if now - changed_at >= rest_seconds:
            return changed_at
        await anyio.sleep(_LOOK_EVERY_SECONDS)
    raise BenchFailed(f"nodes and pods still change after {within_seconds:g} s")


async def _objects(stage: Stage) -> list[Json]:
    found = list[Json]()
    for path in _READ:
        async with stage.api.get(path) as answer:
            answer.raise_for_status()
            listed: Json = orjson.loads(await answer.read())
        kind, version = listed["kind"].removesuffix("List"), listed["apiVersion"]
        found += [{"kind": kind, "apiVersion": version, **each} for each in listed["items"]]
    return found


async def _items(stage: Stage, path: str) -> list[Json]:
    async with stage.api.get(path, params={"resourceVersion": "0"}) as answer:
        answer.raise_for_status()
        found: list[Json] = orjson.loads(await answer.read())["items"]
        return found


def table(rounds: Sequence[Round]) -> Iterator[str]:
    """Markdown: medians, and the errors of each round."""
    yield f"| median of {len(rounds)} | before | predicted | served | error of each round |"
    yield "|---|---:|---:|---:|---|"
    for name, unit in (("nodes", 1), ("micros", 1e6), ("evictions", 1), ("until", 1)):
        before: Any = [getattr(each, name, 0) for each in rounds]
        predicted, served = ([getattr(getattr(each, side), name) for each in rounds] for side in ("predicted", "served"))
        errors = ", ".join(f"{a / b - 1:+.1%}" if b else f"{a}" for a, b in zip(predicted, served, strict=True))
        cells = [f"{median(each) / unit:.6g}" for each in (before, predicted, served)]
        yield f"| {name} | {' | '.join(cells)} | {errors} |"
    costs = [(each.predicted.took, each.predicted.mib) for each in rounds]
    yield f"| worth | | {max(took for took, _ in costs):g} s, {max(mib for _, mib in costs):g} MiB | | |"


async def measure(size: float, rounds: int, *, consolidation: bool, keep: Path | None) -> list[Round]:
    """The rounds, each with a cluster of its own, and printed to standard error when it is done."""
    found = list[Round]()
    for number in range(1, rounds + 1):
        folder = None if keep is None else keep / str(number)
        found.append(await a_round(size, number, consolidation=consolidation, keep=folder))
        print(json.dumps(asdict(found[-1])), file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.worth", description=__doc__)
    parser.add_argument("--consolidation", action="store_true", help="replace nodes, too")
    parser.add_argument("--size", type=float, default=1.0, help="of the cluster: 1 is 500 nodes")
    parser.add_argument("--rounds", type=int, default=1, help="each with a cluster of its own")
    parser.add_argument("--offline", action="store_true", help="generate the cluster, and ask `worth` alone")
    parser.add_argument("--density", type=int, default=1, help="offline, so many times as many pods, each that much smaller")
    parser.add_argument("--keep", type=Path, help="a folder for the cluster and the service's log of each round")
    asked = parser.parse_args(arguments)
    if asked.offline:
        print(json.dumps(asdict(anyio.run(partial(offline, asked.size, asked.density, consolidation=asked.consolidation)))))
        return 0
    build()
    rounds = anyio.run(partial(measure, asked.size, asked.rounds, consolidation=asked.consolidation, keep=asked.keep))
    context = machine.described() | {"size": asked.size, "consolidation": asked.consolidation}
    print(machine.page(table(rounds), context))
    return 0


if __name__ == "__main__":
    sys.exit(main())
