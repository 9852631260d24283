"""Upgrade and rollback: an older version, then this one, then the older one again, on one cluster. Each leaves it in the middle
of its work. What the one wrote, the next reads: nothing is lost, nothing is done twice.

The older version comes from the repository's history, by the commit or tag in SLACKWATER_TEST_OLDER, and runs in this
environment. A clone without that history skips this; `tests/unit/adapters/kube/test_older_formats.py` reads what that version
wrote.
"""

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import pytest

from slackwater.adapters.cloud.kwok.provider import CONFIG_MAP
from slackwater.model.permits import PersistedPermit, read_written
from slackwater.sandbox.free_ports import FreePorts
from slackwater_protocol import names
from slackwater_protocol.agent import Metrics
from tests.cluster.neonvm import crds
from tests.cluster.neonvm.controller import Controller
from tests.cluster.neonvm.machines import UNIT_CPU, Size, a_machine
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.slackwater_process import PROGRAM, SlackwaterProcess
from tests.cluster.test_history import asked
from tests.cluster.test_preemption_faults import patch, priorities
from tests.cluster.test_resizing import agents, growing, sized
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT: Final = Path(__file__).parents[2]
#: The last commit of 25 November 2026: before a round of corrections, and before thirty settings went. From the first release
#: on this is a tag.
OLDER: Final = os.environ.get("SLACKWATER_TEST_OLDER", "76a2ba97d5329e7abdb89c08bebc7aeb5b5ebedd")
#: Set, it keeps what the older version wrote.
RECORD: Final = "SLACKWATER_TEST_RECORD" in os.environ
RECORD_FILE: Final = ROOT / "tests/unit/adapters/kube/older_formats.json"
_SHORT_LEASE: Final = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
_CONFIG_MAPS: Final = "/api/v1/namespaces/kube-system/configmaps"
_TAINTS: Final = frozenset({names.DELETION_CANDIDATE_TAINT, names.TO_BE_DELETED_TAINT})
_MAX_CPU: Final = Size().high * UNIT_CPU
#: Three loops of the autoscaler: whoever would buy or write once more has done so.
_LOOPS_SECONDS: Final = 4.0


def _known() -> bool:
    found = subprocess.run(["git", "cat-file", "-e", f"{OLDER}^{{commit}}"], cwd=ROOT, capture_output=True, check=False)
    return found.returncode == 0


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The sources of the older version."""
    if not _known():
        pytest.skip(f"this clone lacks the commit {OLDER[:8]}: git fetch --unshallow")
    archive = subprocess.run(
        ["git", "archive", OLDER, "service/src", "protocol/src"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tmp_path / "older", filter="data")
    return tmp_path / "older"


def run_by(source: Path | None) -> list[str]:
    """A command that runs `slackwater` from these sources; nothing for those of this version."""
    env = shutil.which("env")
    assert env is not None
    return [] if source is None else [env, f"PYTHONPATH={source / 'service/src'}:{source / 'protocol/src'}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a service has written into the cluster, and what it began there."""

    permits: Mapping[str, PersistedPermit | None]  #: on the Pod, and on the VirtualMachine
    taints: Mapping[str, tuple[str, ...]]  #: by node, with the times in them
    record: Mapping[str, str]  #: machines on their way
    preempting: str
    leaving: tuple[str, ...]
    migrations: tuple[tuple[str, str], ...]  #: with the nodes that room is held on


class Upgrade:
    """One cluster, and one version after another on it."""

    def __init__(self, control_plane: ControlPlane, ground: Ground, folder: Path) -> None:
        self.control_plane, self.ground, self._folder = control_plane, ground, folder
        self.pool, self.big = f"{ground.name}-pool", f"{ground.name}-big"

    @property
    def settings(self) -> dict[str, Any]:
        """One file for both versions: the group `pool` has nodes that nobody needs, machines of `big` are long on their way."""
        ground, status = self.ground, {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}}
        big = {"metadata": {"labels": {"size": self.big}}, "status": status}
        return {
            "nodes": {"system": {"cpu": "500m"}},
            "leaderElection": {"mode": "own", "resourceName": ground.name, **_SHORT_LEASE},
            "autoscaler": {
                "enabled": True,
                "scanInterval": "1s",
                "nodeGroups": [
                    {"name": self.pool, "provider": "kwok", "maxSize": 3, "template": {"status": status}},
                    {"name": self.big, "provider": "kwok", "maxSize": 3, "template": big, "kwok": {"appearAfter": "1h"}},
                ],
                "providers": {"kwok": {"namespace": ground.name, "seed": 7}},
                "statusConfigMap": f"{ground.name}-status",
                "scaleDown": {"unneededTime": "1h"},
            },
        }

    @asynccontextmanager
    async def running(self, source: Path | None, *, ports: FreePorts) -> AsyncIterator[SlackwaterProcess]:
        """The service of a version, leading, with a kube-scheduler by its own configuration. SIGTERM at the end."""
        folder = self._folder / f"{'newer' if source is None else 'older'}-{ports.take()}"
        folder.mkdir()
        service = SlackwaterProcess(
            folder=folder,
            kubeconfig=self.control_plane.kubeconfig("admin"),
            ports=ports,
            settings=self.settings,
            run_by=run_by(source),
        )
        name = f"kube-scheduler-{folder.name}"
        async with service:
            await service.start()
            command = [*run_by(source), str(PROGRAM), "scheduler-config", "--config", str(service.config)]
            printed = await anyio.run_process(command)
            await self.control_plane.start_scheduler(printed.stdout.decode(), name=name)
            try:
                yield service
            finally:
                with anyio.CancelScope(shield=True):
                    await self.control_plane.stop(name)

    async def written(self) -> Written:
        """What is in the cluster now."""
        ground = self.ground
        pods = await ground.pods()
        machine = await ground.read(f"{crds.GROUP_PATH}/namespaces/{ground.name}/virtualmachines/steady")
        permits = {"grower": _permit(pods["grower"]), "steady": _permit(machine)}
        moves = await ground.read(f"{crds.GROUP_PATH}/namespaces/{ground.name}/virtualmachinemigrations")
        maps = (await ground.read(f"/api/v1/namespaces/{ground.name}/configmaps"))["items"]
        record = {key: text for each in maps if each["metadata"]["name"] == CONFIG_MAP for key, text in each["data"].items()}
        return Written(
            permits=permits,
            taints={node["metadata"]["name"]: _taints(node) for node in await ground.nodes() if _taints(node)},
            record=record,
            preempting=pods["high"]["metadata"].get("annotations", {}).get(names.PREEMPTING, ""),
            leaving=tuple(name for name, pod in sorted(pods.items()) if "deletionTimestamp" in pod["metadata"]),
            migrations=tuple(sorted((m["metadata"]["name"], _annotations(m)[names.TARGET_NODE]) for m in moves["items"])),
        )

    async def history(self, service: SlackwaterProcess) -> Counter[tuple[str, ...]]:
        """All that the service reports of this cluster's pods, each entry as often as it does."""
        found: Counter[tuple[str, ...]] = Counter()
        for pod in ("low", "high", "grower", "waits"):
            for entry in await asked(service, f"pods/{self.ground.name}/{pod}"):
                found[pod, entry["at"], entry["action"], entry["text"]] += 1
        return found


def _moves(pod: str) -> bool:
    return pod.startswith("mover-")


def _annotations(item: Json) -> dict[str, str]:
    return item["metadata"].get("annotations") or {}


def _permit(item: Json) -> PersistedPermit | None:
    return read_written(_annotations(item).get(names.PERMIT))


def _taints(node: Json) -> tuple[str, ...]:
    return tuple(f"{each['key']}={each.get('value')}" for each in node["spec"].get("taints") or () if each["key"] in _TAINTS)


async def reserved(service: SlackwaterProcess) -> dict[str, int]:
    """MilliCPU of each pod with a node."""
    return {entry["name"]: entry["cpu"]["reserved"] for entry in (await service.dumpstate())["pods"]}


def complaints(service: SlackwaterProcess) -> list[str]:
    """Lines of its log about something that it could not read or do."""
    words = ("Traceback", '"level": "error"', "cannot be read", "invalid", "not applied")
    return [line for line in service.log.splitlines() if any(word in line for word in words)]


async def begin(upgrade: Upgrade, service: SlackwaterProcess, nodes: list[str]) -> None:
    """Everything that a service writes into the cluster, each in the middle of its work."""
    ground = upgrade.ground
    high, middle = await priorities(ground)
    here = {"kubernetes.io/hostname": nodes[0]}
    await ground.make_pods(
        [
            a_pod("middle", cpu="2", priorityClassName=middle, nodeSelector=here),
            a_pod("low", cpu="1", nodeSelector=here),
            growing("grower", limited=False),
        ]
    )
    mover, steady = await the_runner(ground, "mover"), await the_runner(ground, "steady")
    await ground.until_bound(5, within_seconds=60)
    await patch(ground, f"{ground.pods_path}/low", {"metadata": {"finalizers": ["slackwater.test/stays"]}})
    await ground.make_pods(
        [
            a_pod("high", cpu="800m", priorityClassName=high, nodeSelector=here),
            a_pod("waits", cpu="6", nodeSelector={"size": upgrade.big}),
        ]
    )
    await ask(upgrade, service, "grower", 1000)
    await ask(upgrade, service, "grower", 2000)
    await ask(upgrade, service, steady, 500)
    await ask(upgrade, service, mover, 500)
    await ask(upgrade, service, mover, 500)  # it migrates by the load of the request before

    metadata = {"name": names.PAUSE_CONFIG_MAP}
    await ground.create(_CONFIG_MAPS, {"metadata": metadata, "data": {"nomination": "while the version changes"}})

    def whole(seen: Written) -> bool:
        return (
            None not in seen.permits.values()
            and any(upgrade.pool in node for node in seen.taints)
            and "askedAt" in seen.record.get(upgrade.big, "")
            and bool(seen.preempting)
            and seen.leaving == ("low",)
            and len(seen.migrations) == 1
        )

    await eventually(upgrade.written, whole, within_seconds=90, wanted="all of it begun", every_seconds=0.5)


async def the_runner(ground: Ground, machine: str) -> str:
    """The Pod of a machine before its migration."""

    async def names_of() -> list[str]:
        found = await ground.read(f"{crds.GROUP_PATH}/namespaces/{ground.name}/virtualmachines/{machine}")
        return [name] if (name := (found.get("status") or {}).get("podName")) else []

    return (await eventually(names_of, bool, within_seconds=60, wanted="a runner"))[0]


async def ask(upgrade: Upgrade, service: SlackwaterProcess, pod: str, cpu: int) -> None:
    """The agent of a pod asks for so much, 2 GiB for a CPU, and gets it."""
    size = sized(cpu, max(cpu // 500, 2))
    async with agents(upgrade.ground, service, pod) as (agent,):
        assert await agent.ask(size, in_use=size, metrics=Metrics(load_avg_1m=0.1)) == size


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What one version leaves to the next."""

    written: Written
    reserved: Mapping[str, int]
    history: Counter[tuple[str, ...]]
    epoch: int


async def left(upgrade: Upgrade, service: SlackwaterProcess) -> Left:
    """As soon as the history is stored: an entry about a wait is written later than an act."""

    async def stored() -> Counter[tuple[str, ...]]:
        return await upgrade.history(service)

    def whole(seen: Counter[tuple[str, ...]]) -> bool:
        return {"preempted", "refused", "scale-up"} <= {entry[2] for entry in seen}

    history = await eventually(stored, whole, within_seconds=60, wanted="each kind of entry", every_seconds=0.5)
    written = await upgrade.written()
    epochs = [permit.epoch for permit in written.permits.values() if permit is not None]
    return Left(written=written, reserved=await reserved(service), history=history, epoch=max(epochs))


async def goes_on(upgrade: Upgrade, service: SlackwaterProcess, before: Left, *, cpu: int) -> None:
    """It leads, knows what it took over, begins nothing again, and lets the agent go on, up to `cpu`."""

    async def leads() -> bool:
        return bool((await service.metrics()).value("slackwater_leader"))

    await eventually(leads, bool, within_seconds=60, wanted="it leads")
    assert (await service.metrics()).value("slackwater_paused", activity="nomination")
    await anyio.sleep(_LOOPS_SECONDS)
    after = await upgrade.written()
    assert after == before.written
    grower, limit = before.reserved["grower"], before.written.permits["grower"]
    assert limit is not None
    want, found = {**before.reserved, "grower": max(grower, limit.permit_limit.cpu)}, await reserved(service)
    assert found.keys() == want.keys()
    # A machine that moves has no permit on it; until its agent is heard it counts by its Max.
    assert {pod: cpu for pod, cpu in found.items() if cpu != want[pod] and not (_moves(pod) and cpu == _MAX_CPU)} == {}
    assert len((await service.dumpstate())["migrations"]) == 1

    async def lost() -> Counter[tuple[str, ...]]:
        return before.history - await upgrade.history(service)

    await eventually(lost, lambda missing: not missing, within_seconds=60, wanted="nothing of the history lost")
    again = [entry for entry, count in (await upgrade.history(service)).items() if count > 1 or entry[2] == "scale-up"]
    assert again == [entry for entry in before.history if entry[2] == "scale-up"], "nothing is noted or bought twice"
    await ask(upgrade, service, "grower", cpu)

    async def permit() -> PersistedPermit:
        found = (await upgrade.written()).permits["grower"]
        assert found is not None
        return found

    written = await eventually(permit, lambda seen: seen.permit.cpu == cpu, within_seconds=60, wanted=f"a permit of {cpu}")
    assert written.epoch > before.epoch, "later than all that the other version wrote"
    assert complaints(service) == []


async def texts(ground: Ground) -> Json:
    """What a version wrote, for `tests/unit/adapters/kube/test_older_formats.py`."""
    pods, maps = await ground.pods(), (await ground.read(_CONFIG_MAPS))["items"]
    machine = await ground.read(f"{crds.GROUP_PATH}/namespaces/{ground.name}/virtualmachines/steady")
    kwok = await ground.read(f"/api/v1/namespaces/{ground.name}/configmaps/{CONFIG_MAP}")
    return {
        "commit": OLDER,
        "permits": [_annotations(item)[names.PERMIT] for item in (pods["grower"], machine)],
        "preempting": _annotations(pods["high"])[names.PREEMPTING],
        "kwok": kwok["data"],
        "history": {
            item["metadata"]["name"]: item["data"]["history"]
            for item in maps
            if item["metadata"]["name"].startswith(names.HISTORY_CONFIG_MAPS)
        },
    }


async def test_each_version_goes_on_where_the_other_stopped(
    control_plane: ControlPlane, ground: Ground, free_ports: FreePorts, older: Path, tmp_path: Path
) -> None:
    await crds.install(ground.api)
    upgrade = Upgrade(control_plane, ground, tmp_path)
    nodes = await ground.make_nodes(1, cpu="4") + await ground.make_nodes(2, tag="m", cpu="16")
    await ground.make_nodes(1, tag="pool", cpu="700m", labels={names.NODE_GROUP: upgrade.pool})  # nothing fits on it
    scales = {names.NEON_ENABLED: "true"}
    moves = {**scales, names.NEON_AUTO_MIGRATION: "true", names.NEON_ALWAYS_MIGRATE: "true"}
    machines = f"{crds.GROUP_PATH}/namespaces/{ground.name}/virtualmachines"
    controller = Controller(ground.api, ground.name, Random(1), seconds=3600.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(controller.run)
        try:
            async with upgrade.running(older, ports=free_ports) as service:
                await ground.create(machines, a_machine("steady", Size(), scales))
                await ground.create(machines, a_machine("mover", Size(), moves))
                await begin(upgrade, service, nodes)
                first = await left(upgrade, service)
            if RECORD:
                RECORD_FILE.write_text(json.dumps(await texts(ground), indent=1, sort_keys=True) + "\n")
            async with upgrade.running(None, ports=free_ports) as service:
                await goes_on(upgrade, service, first, cpu=2500)
                second = await left(upgrade, service)
                await service.kill()  # an upgrade that failed
            async with upgrade.running(older, ports=free_ports) as service:
                await goes_on(upgrade, service, second, cpu=3000)
                await patch(ground, f"{ground.pods_path}/low", {"metadata": {"finalizers": None}})
                assert await ground.until_placed("high", within_seconds=60) == nodes[0]
                assert {"middle", "grower", "high", "waits"} <= set(pods := await ground.pods())
                assert "low" not in pods
                ends = await upgrade.history(service)
                assert [entry[0] for entry in ends if entry[2] == "preempted" and entry[0] != "high"] == ["low"]
        finally:
            with anyio.CancelScope(shield=True):
                if "low" in await ground.pods():
                    await patch(ground, f"{ground.pods_path}/low", {"metadata": {"finalizers": None}})
                await ground.api.delete(f"{_CONFIG_MAPS}/{names.PAUSE_CONFIG_MAP}")
            tasks.cancel_scope.cancel()
