"""A shadow's rights, its providers, its files, its settings, and what its ops listener says."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from slackwater.adapters.files.shadow_files import FileArrivals, FileHistory
from slackwater.adapters.http.status import SettingsView
from slackwater.adapters.kube.client import open_client, open_reader
from slackwater.adapters.kube.errors import KubeError
from slackwater.app import pauses, rbac
from slackwater.app.clouds import open_clouds, open_readers
from slackwater.app.policies import policy_of
from slackwater.app.settings import Settings, SettingsChange, as_file, live, loads, notes, watch_settings
from slackwater.cli.main import main
from slackwater.controllers.history.policy import SLOTS, HistoryPolicy
from slackwater.controllers.history.state import Chunk, History
from slackwater.model.authority import withheld_by_settings
from slackwater.model.history import HistoryAction, HistoryEntry
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import GroupName
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.externalserver import CHANGES, RUNNING, ExternalServer, Pool
from tests.support.fakeapi import Reply, fake_api, write_kubeconfig
from tests.support.ops import ops_app

pytestmark = pytest.mark.anyio

HEADER: Final = "apiVersion: config.slackwater.dev/v1alpha1\nkind: SlackwaterConfiguration\n"
EVERYTHING: Final = """
leaderElection: {mode: own}
autoscaler:
  enabled: true
  nodeGroups:
  - {name: a, maxSize: 5, template: {status: {capacity: {cpu: 4, memory: 16Gi}}}}
  - {name: b, provider: clusterapi, id: MachineDeployment/default/md-0}
  providers: {karpenter: {}}
  slack: {startTimeSLOs: [{name: web, percent: 95, within: 10s}]}
"""
READING: Final = {"get", "list", "watch"}
Json = dict[str, Any]


def rules(items: list[Json]) -> Iterator[Json]:
    return (rule for item in items for rule in item.get("rules", ()))


@pytest.mark.parametrize("text", ["", EVERYTHING])
def test_its_roles_read_and_do_nothing_else(text: str) -> None:
    whole = rbac.rights(loads(HEADER + text), rbac.user("u"))
    shadow = rbac.rights(loads(HEADER + "mode: shadow\n" + text), rbac.user("u"))
    assert {verb for rule in rules(shadow) for verb in rule["verbs"]} <= READING
    read = {(str(rule["resources"]), verb) for rule in rules(whole) for verb in rule["verbs"] if verb in READING}
    assert {(str(rule["resources"]), verb) for rule in rules(shadow) for verb in rule["verbs"]} <= read
    assert not any("leases" in rule["resources"] for rule in rules(shadow))


def test_the_command_prints_its_roles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "slackwater.yaml"
    path.write_text(HEADER + EVERYTHING)
    assert main(["config", "rbac", "--shadow", str(path)]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert {verb for rule in rules(printed) for verb in rule["verbs"]} == READING
    assert [item["kind"] for item in printed].count("ServiceAccount") == 1


async def test_a_provider_of_others_is_only_read(tmp_path: Path) -> None:
    server = ExternalServer()
    pool = Pool("far", min_size=0, max_size=5, target=1)
    pool.make(1, RUNNING)
    server.pools["far"] = pool
    async with server.serving() as address, fake_api() as api:
        api.objects["/api/v1/nodes"] = {}
        far = f'externalgrpc: {{address: "{address}", timeout: 60s}}'
        settings = loads(HEADER + f"autoscaler: {{enabled: true, providers: {{{far}}}, nodeGroups: [{{name: a}}]}}")
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
        async with open_reader(kubeconfig=kubeconfig) as reader, open_readers(settings, reader, now=lambda: 0.0) as readers:
            found = [group.name for each in readers for group in await each.groups(timeout_seconds=60)]
            assert sorted(found) == ["a", "far"]
            assert not any(hasattr(each, name) for each in readers for name in ("grow", "lower", "delete", "arrivals"))
    assert server.calls
    assert {call.name for call in server.calls} & CHANGES == set()
    assert {asked.method for asked in api.asked} == {"GET"}


async def test_the_groups_are_those_of_the_service(tmp_path: Path) -> None:
    async with fake_api() as api:
        for path in ("/api/v1/nodes", "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"):
            api.objects[path] = {}
        for path in ("/api/v1/nodes", "/apis/cluster.x-k8s.io/v1beta1/machinedeployments"):
            api.objects[path] = {}
        api.reply("GET", "/apis/cluster.x-k8s.io", *[Reply(status=404)] * 9)
        settings = loads(HEADER + EVERYTHING)
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
        async with open_reader(kubeconfig=kubeconfig) as reader, open_readers(settings, reader, now=lambda: 0.0) as readers:
            read = {each.name: await each.groups(timeout_seconds=60) for each in readers}
            async with open_clouds(settings, reader) as clouds:  # type: ignore[arg-type]
                assert read == {each.name: await each.groups(timeout_seconds=60) for each in clouds.providers}
    assert sorted(read) == ["clusterapi", "karpenter", "kwok"]


# --- files ----------------------------------------------------------------------------------------------------------------


def entry(number: int) -> HistoryEntry:
    return HistoryEntry(at_ms=number, action=HistoryAction.WITHHELD, node=f"n-{number}", why="w" * 400)


async def test_the_history_is_bounded_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    history, store = History(HistoryPolicy(chunk_bytes=2000)), FileHistory(str(path))
    assert await store.read() == []
    history.restore([])
    sizes = []
    for number in range(200):
        history.add(entry(number))
        for chunk in history.unwritten():
            assert await store.write(chunk) == chunk.bytes
            chunk.unwritten_since_ms = None
        sizes.append(path.stat().st_size)
    assert max(sizes) < 2 * SLOTS["acts"] * 2000
    chunks = await FileHistory(str(path)).read()
    assert chunks is not None
    restored = History(HistoryPolicy())
    restored.restore(chunks)
    assert [each.node for each in restored] == [each.node for each in history]
    assert len(list(restored)) < 200, "the oldest are forgotten"


@pytest.mark.parametrize("content", [b"no json", b'{"format": 2, "chunks": []}', b'{"format": 1, "chunks": [{"ring": "x"}]}'])
async def test_a_history_that_is_none_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "history.json"
    path.write_bytes(content)
    with capture_logs() as lines:
        assert await FileHistory(str(path)).read() == []
    assert [line["event"] for line in lines] == ["history cannot be read; starting with an empty one"]


async def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    store = FileHistory(str(tmp_path / "nowhere" / "history.json"))
    with capture_logs() as lines:
        for number in range(3):
            assert await store.write(Chunk(ring="acts", number=number)) is None
    assert [line["event"] for line in lines] == ["history not written"]


async def test_arrivals_are_kept_where_there_is_a_file(tmp_path: Path) -> None:
    store = FileArrivals(str(tmp_path / "arrivals"))
    assert await store.read() is None
    assert await store.write({"a": [1, 2]})
    assert await store.read() == {"a": [1, 2]}
    nowhere = FileArrivals(None)
    assert await nowhere.write({"a": 1})
    assert await nowhere.read() is None


# --- settings -------------------------------------------------------------------------------------------------------------


def test_a_change_of_the_mode_waits_for_a_restart() -> None:
    change = live(Settings(), loads(HEADER + "mode: shadow"))
    assert isinstance(change, SettingsChange)
    assert (change.live, change.restart, change.settings.mode) == ((), ("mode",), "serve")


def test_a_file_for_the_history_has_no_effect_on_a_service_that_writes() -> None:
    text = "history: {file: /var/lib/slackwater/history.json}\n"
    assert any(note.startswith("history.file: has no effect") for note in notes(loads(HEADER + text)))
    assert notes(loads(HEADER + "mode: shadow\n" + text)) == []


class Ended(Exception):
    pass


async def test_the_flag_holds_whatever_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "slackwater.yaml"
    path.write_text(HEADER + "mode: serve\n")
    seen: list[str] = []
    texts = iter([None, HEADER + "schedulerName: other\n", None, None])

    async def sleep(_seconds: float) -> None:
        try:
            text = next(texts)
        except StopIteration:
            raise Ended from None
        if text is not None:
            path.write_text(text)

    with pytest.raises(Ended):
        await watch_settings(
            path,
            lambda _, new: seen.append(f"{new.scheduler_name} {new.mode}"),
            lambda error: seen.append(str(error)),
            current=Settings(mode="shadow"),
            sleep=sleep,
            overrides={"mode": "shadow"},
        )
    assert seen == ["other shadow"]


# --- what it says ---------------------------------------------------------------------------------------------------------


class Ready:
    ready = True
    unlisted: tuple[str, ...] = ()


@pytest.mark.parametrize("shadow", [False, True])
async def test_health_status_and_pages_say_which_it_is(shadow: bool) -> None:
    async def explain(*_: object) -> bytes:
        return msgspec.json.encode(
            {"object": "node n", "state": "ready", "reasons": [], "remedies": [], "minimal": [], "facts": {}}
        )

    app = ops_app(
        state_machine=StateMachine(installed.POLICY),
        readiness=Ready(),
        registry=CollectorRegistry(),
        settings=SettingsView(as_file(Settings())),
        clock=lambda: Instant(0.0),
        explain=explain,
        shadow=shadow,
    )
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as http:
        health = [(await http.get(path)).text for path in ("/healthz", "/readyz")]
        assert {"is a shadow" in text for text in health} == {shadow}
        assert (await http.get("/statusz")).json()["mode"] == ("shadow" if shadow else "serve")
        pages = [(await http.get(path, headers={"accept": "text/html"})).text for path in ("/", "/explain/nodes/n")]
        notice = '<p class="notice">Shadow: nothing is written</p>'
        assert [notice in page for page in pages] == [shadow, shadow]
        assert pages[0].index("<nav") > pages[0].find(notice), "above every view"
        answer = await http.post("/drains/n/cancel")
        assert (answer.status_code, "is a shadow" in answer.text) == ((409, True) if shadow else (404, False))


@pytest.mark.parametrize(
    ("names", "refused"), [(["slackwater-shadow"], True), (["slackwater-shadow", "slackwater"], False), ([], False)]
)
async def test_a_shadow_has_nothing_to_pause(tmp_path: Path, names: list[str], refused: bool) -> None:
    async with fake_api() as api:
        pods = "/api/v1/namespaces/kube-system/pods"
        api.objects[pods] = {}
        for name in names:
            api.put(pods, name, "kube-system", metadata={"labels": {"name": name, "app.kubernetes.io/name": "slackwater"}})
        api.reply(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            *[Reply(body={"status": {"userInfo": {"username": "me"}}})] * 2,
        )
        api.reply("POST", "/api/v1/namespaces/kube-system/configmaps", Reply(status=201))
        async with open_client(kubeconfig=write_kubeconfig(tmp_path / "kubeconfig", api.url)) as client:
            for change in (pauses.pause(client, ["all"], now=datetime.now(UTC), reason=""), pauses.resume(client, ["all"])):
                if refused:
                    with pytest.raises(KubeError, match="is a shadow"):
                        await change
                else:
                    await change
        writes = [asked.path for asked in api.asked if asked.method != "GET" and "reviews" not in asked.path]
        assert bool(writes) != refused


def test_a_replacement_is_withheld_with_what_it_needs_and_a_group_with_all() -> None:
    asked = partial(withheld_by_settings, group=GroupName("a"))
    assert asked("consolidation", capabilities=["scale-down"], groups=[]) == "shadow.capabilities names scale-down"
    assert asked("scale-down", capabilities=["consolidation"], groups=[]) is None
    assert asked("scale-up", capabilities=[], groups=["a"]) == "shadow.groups names a"
    assert asked("scale-up", capabilities=["slack"], groups=["b"]) is None


def test_preemption_is_off_where_it_is_withheld() -> None:
    settings = loads(HEADER + "shadow: {capabilities: [preemption]}")
    assert [policy_of(each).preemption.enabled for each in (Settings(), settings)] == [True, False]
