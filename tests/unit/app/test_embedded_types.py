"""The sandbox serves what the service watches: a type that it lacks would keep the autoscaler waiting for ever."""

import pytest

from slackwater.adapters.kube.auxiliary import auxiliary
from slackwater.adapters.kube.headroom_requests import headroom_requests
from slackwater.model.pod_constraints import KindInterner
from slackwater.sandbox.embedded.kinds import target_of


def broken(resource: str, name: str, error: Exception) -> None:
    raise AssertionError(f"{resource} {name}: {error}")


TYPES = (*auxiliary(KindInterner(), broken), *headroom_requests(KindInterner(), broken))
PATHS = {resource.name: resource.path for resource in TYPES if not resource.may_be_absent}


@pytest.mark.parametrize("name", PATHS)
def test_every_type_that_planners_read_is_served(name: str) -> None:
    assert target_of(PATHS[name]).kind.plural == name
