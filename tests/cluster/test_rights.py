"""The service's roles are enough for all it does, and no wider. Runs last, and looks back on the whole session.

In a parallel run that is every worker's (`support/asked.py`). Enough: nothing that the service asked in the session was
forbidden. No wider: each right that the roles give was used by some feature of the session, and without it, all others in
place, the API server forbids what used it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from slackwater.app import rbac
from slackwater.app.settings import Settings, loads
from tests.cluster.support.asked import by_service, kept
from tests.cluster.support.audit_tail import Request
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.stage import Stage
from tests.controlplane.talk import create
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

OK, FORBIDDEN = range(200, 300), range(403, 404)
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_USES_ALL: Final = """
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
featureGates: {ResourceSlack: true}
leaderElection: {mode: own}
autoscaler:
  enabled: true
  nodeGroups: [{name: a}, {name: b, provider: clusterapi}]
  slack: {startTimeSLOs: [{name: web, percent: 95, within: 10s}]}
"""
#: The version of each API group that the service asks; the core's is v1.
_VERSIONS: Final = {
    "autoscaling.x-k8s.io": "v1beta1",
    "cluster.x-k8s.io": "v1beta1",
    "infrastructure.cluster.x-k8s.io": "v1beta1",
}
_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
_UNNAMED: Final = {"list", "watch", "create"}
_CLUSTER_WIDE: Final = {
    "nodes",
    "namespaces",
    "persistentvolumes",
    "storageclasses",
    "csinodes",
    "csidrivers",
    "volumeattachments",
    "resourceslices",
    "devicetaintrules",
    "deviceclasses",
    "tokenreviews",
}


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one type of object."""

    group: str
    resource: str
    verb: str

    def request(self, namespace: str) -> tuple[str, str]:
        """Method and path of a request that needs this right and no other; no such object is there."""
        plural, _, part = self.resource.partition("/")
        root = f"/apis/{self.group}/{_VERSIONS.get(self.group, 'v1')}" if self.group else "/api/v1"
        within = "" if plural in _CLUSTER_WIDE else f"/namespaces/{namespace}"
        whole = self.verb in _UNNAMED and not part
        named = "" if whole else "/nobody"
        watched = "?watch=1&timeoutSeconds=1" if self.verb == "watch" else ""
        kind = "any" if plural == "*" else plural
        return _METHODS[self.verb], f"{root}{within}/{kind}{named}{'/' if part else ''}{part}{watched}"


def rights(role: Json) -> set[Right]:
    return {
        Right(group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


DEFAULT: Final = rights(rbac.cluster_role()) | rights(rbac.pause_role()) | rights(rbac.history_role(None) or {"rules": []})
EVERYTHING: Final = rights(rbac.cluster_role(loads(_USES_ALL)))


def without(right: Right, role: Json) -> Json:
    """The role, less this right wherever it gives it."""
    return {**role, "rules": list(_rules_without(right, role))}


def _rules_without(right: Right, role: Json) -> Iterator[Json]:
    for rule in role["rules"]:
        if right.group not in rule["apiGroups"] or right.resource not in rule["resources"]:
            yield rule
            continue
        if others := [resource for resource in rule["resources"] if resource != right.resource]:
            yield {**rule, "resources": others}
        if verbs := [verb for verb in rule["verbs"] if verb != right.verb]:
            yield {**rule, "resources": [right.resource], "verbs": verbs}


@pytest.fixture
async def asked(stage: Stage, ground: Ground) -> set[Request]:
    """What the service has asked in the session, and in those before it, pods bound by it here included."""
    await ground.make_nodes(1)
    await stage.up()
    await ground.make_pods(a_pod(f"p-{number}") for number in range(10))
    await ground.until_bound(10, within_seconds=60)
    return by_service(stage.control_plane.audit_log) | kept()[0]


def of_status(requests: set[Request], statuses: range) -> set[Right]:
    return {Right(each.group, each.resource, each.verb) for each in requests if each.status in statuses}


async def test_nothing_that_the_service_asked_in_the_whole_session_was_beyond_its_role(asked: set[Request]) -> None:
    first = {
        Right("", "nodes", "list"),
        Right("", "pods", "list"),
        Right("", "pods/binding", "create"),
    }
    assert first <= of_status(asked, OK)
    # An API server that has just started answers 403 until it has read its roles: what the role names is no gap of it.
    assert of_status(asked, FORBIDDEN) - DEFAULT == set()


async def test_each_right_of_the_role_was_used_by_some_feature(asked: set[Request], request: pytest.FixtureRequest) -> None:
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    if not files <= {item.path.name for item in request.session.items} | kept()[1]:
        pytest.skip("looks back on all tests of this folder")
    assert DEFAULT - of_status(asked, OK) == set(), "rights that no feature has used"


async def test_without_any_one_right_what_needs_it_is_forbidden(ground: Ground) -> None:
    """Each right of the role for every feature in turn. The account differs from the service's in nothing else."""
    role = rbac.cluster_role(loads(_USES_ALL))
    whole = await an_account(ground, role, "whole")
    for number, right in enumerate(sorted(EVERYTHING, key=str)):
        user = await an_account(ground, without(right, role), f"less-{number}")
        method, path = right.request(ground.name)
        assert await until_settled(ground, user, method, path) == 403, right
        assert await until_settled(ground, whole, method, path) != 403, right


@pytest.mark.parametrize("make", [rbac.record_role, rbac.status_role, rbac.lease_role, rbac.history_role])
async def test_without_any_one_right_in_its_namespace_what_needs_it_is_forbidden(
    ground: Ground, make: Callable[[Settings], Json | None]
) -> None:
    role = make(loads(_USES_ALL))
    assert role is not None
    uses = [(at, verb) for at, rule in enumerate(role["rules"]) for verb in rule["verbs"]]
    for at, verb in uses:
        user = await an_account_here(ground, [*_less(role["rules"], at, verb)], f"{role['metadata']['name']}-{at}-{verb}")
        for other in uses:
            if other != (at, verb):
                ask = partial(status_of, ground.api, user, *_in_namespace(role["rules"][other[0]], other[1], ground.name))
                wanted = f"{other} granted to {user}"
                await eventually(ask, lambda status: status != 403, within_seconds=60, wanted=wanted, every_seconds=0.02)
        assert await status_of(ground.api, user, *_in_namespace(role["rules"][at], verb, ground.name)) == 403, (at, verb)


def _less(rules: list[Json], at: int, verb: str) -> Iterator[Json]:
    for number, rule in enumerate(rules):
        verbs = [each for each in rule["verbs"] if (number, each) != (at, verb)]
        if verbs:
            yield {**rule, "verbs": verbs}


def _in_namespace(rule: Json, verb: str, namespace: str) -> tuple[str, str]:
    """Method and path of a request that needs this right; one that names an object names one of the rule's."""
    (group,), (resource,) = rule["apiGroups"], rule["resources"]
    method, path = Right(group, resource, verb).request(namespace)
    names = rule.get("resourceNames")
    if names is None:
        return method, path
    return method, f"{path}&fieldSelector=metadata.name%3D{names[0]}" if verb == "watch" else path.replace("nobody", names[0])


async def an_account_here(ground: Ground, rules: list[Json], name: str) -> str:
    """A user with these rules in the namespace of the test."""
    user = f"{ground.name}-{name}"
    metadata = {"name": user, "namespace": ground.name}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    path = f"{_RBAC}/namespaces/{ground.name}"
    await create(ground.api, f"{path}/roles", role)
    await create(ground.api, f"{path}/rolebindings", rbac.binding(role, rbac.user(user)))
    return user


async def an_account(ground: Ground, role: Json, name: str) -> str:
    """A user with this role and no other."""
    user = f"{ground.name}-{name}"
    named = {**role, "metadata": {"name": user}}
    await create(ground.api, f"{_RBAC}/clusterroles", named)
    await create(ground.api, f"{_RBAC}/clusterrolebindings", rbac.binding(named, rbac.user(user)))
    return user


async def until_settled(ground: Ground, user: str, method: str, path: str) -> int:
    """The status once the API server has read the roles: until then everything is forbidden.

    So a 403 is only believed where another right of the same user is granted already.
    """
    known = "/api/v1/nodes?limit=1" if not path.startswith("/api/v1/nodes") else "/api/v1/pods?limit=1"
    await eventually(
        lambda: status_of(ground.api, user, "GET", known),
        lambda status: status == 200,
        within_seconds=60,
        wanted=f"the role of {user}",
        every_seconds=0.02,
    )
    return await status_of(ground.api, user, method, path)


async def status_of(api: aiohttp.ClientSession, user: str, method: str, path: str) -> int:
    headers = {"Impersonate-User": user}
    if method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    async with api.request(method, path, headers=headers, json=None if method == "GET" else {}) as answer:
        await answer.read()
        return answer.status
