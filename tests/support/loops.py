"""A module that imports `each_loop` runs its asynchronous tests twice: on asyncio's own event loop, and on uvloop's."""

import pytest
import uvloop


@pytest.fixture(name="anyio_backend", params=[{}, {"loop_factory": uvloop.new_event_loop}], ids=["asyncio", "uvloop"])
def each_loop(request: pytest.FixtureRequest) -> object:
    return "asyncio", request.param
