"""The providers that the conformance suite is run with."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.providers.aws_rig import aws_rig
from tests.providers.clusterapi_rig import clusterapi_rig
from tests.providers.double_rig import double_rig
from tests.providers.externalgrpc_rig import externalgrpc_rig
from tests.providers.karpenter_rig import karpenter_rig
from tests.providers.kwok_rig import kwok_rig
from tests.providers.rig import Rig

RIGS: dict[str, Callable[[], AbstractAsyncContextManager[Rig]]] = {
    "double": double_rig,
    "kwok": kwok_rig,
    "externalgrpc": externalgrpc_rig,
    "aws": aws_rig,
    "karpenter": karpenter_rig,
    "clusterapi-deployment": lambda: clusterapi_rig("MachineDeployment"),
    "clusterapi-set": lambda: clusterapi_rig("MachineSet"),
    "clusterapi-pool": lambda: clusterapi_rig("MachinePool"),
}


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="package", autouse=True)
async def one_event_loop(anyio_backend: str) -> AsyncIterator[None]:
    """Keeps one event loop open for all tests of this folder.

    gRPC has one poller a process. It hands the last events of a cancelled call to the loop that made the call, after
    the test's end as well, and raises in the next test's loop where the first one is closed.
    """
    yield  # noqa: PT022 - the open generator keeps the loop


@pytest.fixture(params=RIGS)
async def rig(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Rig]:
    async with RIGS[request.param]() as rig:
        yield rig
