"""The service as a user runs it: `slackwater serve` in a process of its own, with a configuration file and free ports.

It can be killed and started again on the same ports with the same log. Deliberately absent: anything that reaches into
the process; what a test learns of it comes from its listeners, its log and its exit status.
"""

import ssl
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import anyio
import yaml

from slackwater.cli.main import main
from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.support.metrics import Samples
from tests.cluster.support.preloaded import PRELOADED
from tests.support.configuration import HEAD
from tests.support.controlplane.component import Component, Launch, open_dying_with_parent
from tests.support.controlplane.stack import until_ready

#: The entry point that `pip install` makes.
PROGRAM: Final = Path(sys.executable).with_name("slackwater")
_READY_WITHIN_SECONDS: Final = 120.0
_STOP_WITHIN_SECONDS: Final = 60.0
_ANSWER_WITHIN: Final = aiohttp.ClientTimeout(total=60)


class SlackwaterProcess:
    """An async context manager; `start` first. `config` is the file that it and `scheduler-config` read.

    Leaving the block stops it by SIGTERM where it still runs: AssertionError unless it takes that well and exits with 0.
    """

    def __init__(
        self,
        *,
        folder: Path,
        kubeconfig: Path,
        ports: FreePorts,
        settings: Mapping[str, Any] | None = None,
        run_by: Sequence[str] = (),
    ) -> None:
        """`run_by` is a command that runs it; it is given the program and its arguments."""
        self.config = folder / "slackwater.yaml"
        self._addresses = {name: f"127.0.0.1:{ports.take()}" for name in ("extender", "ops", "agents")}
        self.write_config(settings or {})
        ops = f"http://{self._addresses['ops']}"
        launch = Launch(
            name="slackwater",
            program=PROGRAM,
            arguments=("serve", "--config", str(self.config), "--kubeconfig", str(kubeconfig)),
            url=ops,
            ready_paths=("/readyz",),
        ).run_by(run_by)
        opener = open_dying_with_parent if run_by else PRELOADED.open
        self._component = Component(launch, log=folder / "slackwater.log", home=folder, opener=opener)

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(self._component.launch.url, timeout=_ANSWER_WITHIN)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        was_running = self._component.running
        # Bounded, since both are.
        with anyio.CancelScope(shield=True):
            await self._http.close()
            await self._component.stop(within_seconds=_STOP_WITHIN_SECONDS)
        if was_running:
            status = await self._component.ended()
            assert status == 0, f"the service exited with {status} after SIGTERM, want 0; its log ends so: {self.log[-2000:]}"

    # Its life

    async def start(self) -> None:
        """Starts it, for the first time or again; ready on return. ComponentFailed or NotReady with its last words."""
        await self._component.start()
        await until_ready(self._component, self._http, within_seconds=_READY_WITHIN_SECONDS)

    async def kill(self) -> None:
        """SIGKILL; gone on return."""
        self._component.send(SIGKILL)
        with anyio.fail_after(_STOP_WITHIN_SECONDS):
            assert await self._component.ended() == -SIGKILL

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self._component.pause()

    def resume(self) -> None:
        """Ends `pause`."""
        self._component.send(SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, without waiting for what comes of it."""
        self._component.send(SIGTERM)

    async def ended(self, *, within_seconds: float) -> int:
        """Its exit status, negative for a signal; TimeoutError if it still runs after `within_seconds`."""
        with anyio.fail_after(within_seconds):
            return await self._component.ended()

    @property
    def pid(self) -> int:
        return self._component.pid

    def check_running(self) -> None:
        """ComponentFailed, with its last words, if it has ended."""
        self._component.check()

    @property
    def log(self) -> str:
        """All it has said."""
        return self._component.log.read_text() if self._component.log.exists() else ""

    # Its configuration

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """Writes the whole file again: `settings` beside its own addresses."""
        listeners = {name: {"address": address} for name, address in self._addresses.items()}
        for name, more in settings.get("listeners", {}).items():
            listeners[name] = {**listeners[name], **more}
        self._listeners = listeners
        self.config.write_text(yaml.safe_dump({**HEAD, **settings, "listeners": listeners}, sort_keys=False))

    async def scheduler_config(self) -> str:
        """What `slackwater scheduler-config` prints for this configuration. A process for it would cost a second of CPU."""
        printed = StringIO()
        with redirect_stdout(printed):
            assert main(["scheduler-config", "--config", str(self.config)]) == 0
        return printed.getvalue()

    # What it says

    async def dumpstate(self) -> dict[str, Any]:
        """`GET /dumpstate`."""
        return await self._read("/dumpstate")

    async def statusz(self) -> dict[str, Any]:
        """`GET /statusz`."""
        return await self._read("/statusz")

    async def metrics(self) -> Samples:
        """`GET /metrics`."""
        async with self._http.get("/metrics") as answer:
            assert answer.status == 200, await answer.text()
            return Samples.parse(await answer.text())

    @property
    def ops_url(self) -> str:
        return f"http://{self._addresses['ops']}"

    @property
    def agents_url(self) -> str:
        return f"http://{self._listeners['agents']['address']}/"

    async def ask_extender(self, verb: str, body: Mapping[str, Any], *, tls: ssl.SSLContext | None = None) -> dict[str, Any]:
        """One call of an extender verb, as kube-scheduler makes it; the answer of a 200."""
        url = f"{'https' if tls else 'http'}://{self._addresses['extender']}/scheduler/{verb}"
        async with (
            aiohttp.ClientSession(timeout=_ANSWER_WITHIN) as http,
            http.post(url, json=body, ssl=tls if tls is not None else True) as answer,
        ):
            assert answer.status == 200, await answer.text()
            return dict(await answer.json())

    async def _read(self, path: str) -> dict[str, Any]:
        async with self._http.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return dict(await answer.json())
