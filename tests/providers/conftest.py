"""The providers that the conformance suite is run with."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.providers.double_rig import double_rig
from tests.providers.kwok_rig import kwok_rig
from tests.providers.rig import Rig

RIGS: dict[str, Callable[[], AbstractAsyncContextManager[Rig]]] = {"double": double_rig, "kwok": kwok_rig}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=RIGS)
async def rig(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Rig]:
    async with RIGS[request.param]() as rig:
        yield rig
