"""The service's ClusterRole is enough for all it does. Runs last, and looks back on the whole session."""

import pytest

from slackwater.app import rbac
from tests.cluster.support.audit_tail import AuditTail, Request
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

OK, FORBIDDEN = range(200, 300), range(403, 404)


async def test_nothing_that_the_service_asked_in_the_whole_session_was_beyond_its_role(stage: Stage, ground: Ground) -> None:
    await ground.make_nodes(1)
    await stage.up()
    await ground.make_pods(a_pod(f"p-{number}") for number in range(10))
    await ground.until_bound(10, within_seconds=30)

    whole = AuditTail(stage.control_plane.audit_log, from_beginning=True)
    asked = [request for request in whole.read() if request.user == "slackwater"]

    assert {("list", "nodes"), ("list", "pods"), ("watch", "pods"), ("create", "pods/binding")} <= of_status(asked, OK)
    # An API server that has just started answers 403 until it has read its roles: what the role names is no gap of it.
    assert of_status(asked, FORBIDDEN) - granted(rbac.cluster_role()) == set()


def of_status(requests: list[Request], statuses: range) -> set[tuple[str, str]]:
    return {(request.verb, request.resource) for request in requests if request.status in statuses}


def granted(role: Json) -> set[tuple[str, str]]:
    return {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}
