"""DeviceTaintRules from an API server: watched, or read once by whichever version of the API serves them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import anyio
import pytest

from slackwater.adapters.kube.auxiliary import auxiliary
from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.reflector import Reflector
from slackwater.app.offline.files import fetch_cluster
from slackwater.app.offline.version import VersionRequest
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.pod_constraints import KindInterner
from slackwater.runtime.auxiliary_intake import AuxiliaryIntake
from tests.support.devices import taint_rule_body
from tests.support.fakeapi import FakeApi, Reply
from tests.unit.adapters.kube.test_reflector import FAST

pytestmark = pytest.mark.anyio

_NEWEST = KubernetesVersion.parse("1.37")
_PATH = "/apis/resource.k8s.io/v1/devicetaintrules"


class Watched:
    """An intake that follows the rules alone, with the rules that could not be read."""

    def __init__(self, client: KubeClient) -> None:
        self.broken: list[str] = []
        types = auxiliary(KindInterner(), lambda _, name, __: self.broken.append(name), kubernetes=_NEWEST)
        (rules,) = (each for each in types if each.name == "devicetaintrules")
        self.intake = AuxiliaryIntake({"devicetaintrules": Reflector(client, rules, rng=Random(1), config=FAST)})
        self.reader = self.intake.reader()

    def pools(self) -> dict[str, str | None]:
        """The pool that each known rule selects."""
        self.reader.reset()
        devices = self.reader.changes().devices
        assert devices is not None
        return {name: rule.selector.pool for name, rule in devices.taint_rules.items() if rule.selector is not None}

    async def until(self, want: dict[str, str | None]) -> None:
        with anyio.fail_after(60):
            while self.pools() != want:  # noqa: ASYNC110 - no event tells of it
                await anyio.sleep(0.001)


@asynccontextmanager
async def watching(client: KubeClient) -> AsyncIterator[Watched]:
    watched = Watched(client)
    async with anyio.create_task_group() as group:
        group.start_soon(watched.intake.run)
        yield watched
        group.cancel_scope.cancel()


def rule(pool: str) -> dict[str, object]:
    spec: dict[str, object] = taint_rule_body("any", pool=pool)["spec"]
    return spec


async def test_a_rule_that_cannot_be_read_ends_nothing_and_what_was_read_of_it_stands(api: FakeApi, client: KubeClient) -> None:
    api.put(_PATH, "good", spec=rule("a"))
    api.put(_PATH, "bad", spec=rule("a"))
    async with watching(client) as watched:
        await watched.until({"good": "a", "bad": "a"})
        api.put(_PATH, "bad", spec={"taint": ["no object"]})
        api.put(_PATH, "worse", spec={})
        api.put(_PATH, "good", spec=rule("b"))
        await watched.until({"good": "b", "bad": "a"})
        assert watched.broken == ["bad", "worse"]
        api.delete(_PATH, "bad")
        await watched.until({"good": "b"})


async def test_an_api_server_without_the_type_has_no_rules(api: FakeApi, client: KubeClient) -> None:
    api.absent.add(_PATH)
    async with watching(client) as watched:
        with anyio.fail_after(60):
            await watched.intake.synced()
        assert watched.pools() == {}
        api.absent.discard(_PATH)
        api.put(_PATH, "late", spec=rule("a"))
        await watched.until({"late": "a"})


def serve(api: FakeApi) -> None:
    """Serves what `fetch_cluster` cannot do without."""
    api.reply("GET", "/version", Reply(body={"major": "1", "minor": "37", "gitVersion": "v1.37.2"}))
    api.put("/api/v1/nodes", "a", kind="Node", status={"allocatable": {"cpu": "1"}})
    api.put("/api/v1/pods", "p", "default", kind="Pod", spec={"containers": [{"name": "c", "image": "c:1"}]})


@pytest.mark.parametrize(("version", "api_version"), [("1.37", "v1"), ("1.36", "v1beta2"), ("1.35", "v1alpha3")])
async def test_a_cluster_is_read_with_the_rules_that_its_api_server_serves(
    api: FakeApi, client: KubeClient, version: str, api_version: str
) -> None:
    paths = [f"/apis/resource.k8s.io/{each}/devicetaintrules" for each in ("v1", "v1beta2", "v1alpha3")]
    served = f"/apis/resource.k8s.io/{api_version}/devicetaintrules"
    api.absent.update(path for path in paths if path != served)
    serve(api)
    api.put(served, "r", kind="DeviceTaintRule", spec=rule("a"))
    gates = {"DRADeviceTaints": True, "DRADeviceTaintRules": True}
    cluster = await fetch_cluster(client, request=VersionRequest(version=KubernetesVersion.parse(version, gates)))
    assert set(cluster.devices.taint_rules) == {"r"}
    asked = [each.path for each in api.asked if each.path in paths]
    assert asked == paths[: paths.index(served) + 1], "no older version is asked for than the one that serves them"


async def test_a_user_who_may_not_list_rules_still_gets_an_answer_that_says_so(api: FakeApi, client: KubeClient) -> None:
    for path in (f"/apis/resource.k8s.io/{each}/devicetaintrules" for each in ("v1", "v1beta2", "v1alpha3")):
        api.reply("GET", path, Reply(status=403, body={"kind": "Status", "code": 403, "reason": "Forbidden"}))
    serve(api)
    cluster = await fetch_cluster(client, request=VersionRequest(version=_NEWEST))
    assert "DeviceTaintRule" in cluster.unknown
