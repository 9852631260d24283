"""Who is compared: extenders as programs to start, all with the same account and the same scheduler configuration."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from slackwater.app.scheduler_config.generate import generate
from slackwater.app.settings import Settings, loads
from slackwater.sandbox.free_ports import LOOPBACK
from tests.bench.options import ServiceCommand
from tests.bench.stage import Stage
from tests.support.controlplane.component import Launch

ALONE: Final = "kube-scheduler alone"
NOTHING: Final = "decides nothing"
#: Slackwater binds, and filter names every node that passes.
ALL_NODES: Final = "extender: {bind: true}\n"
#: In the audit log.
SCHEDULER_USER: Final = "system:kube-scheduler"
EXTENDER_USER: Final = "slackwater"

_HERE: Final = Path(__file__).parent
HEADER: Final = """
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
"""
_TEXT: Final = """
listeners:
  extender: {{address: "{host}:{extender}"}}
  agents: {{address: "{host}:{agents}"}}
  ops: {{address: "{host}:{ops}"}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """An extender to be started; the scheduler reaches it as `settings` say."""

    launch: Launch
    settings: Settings

    @property
    def extender_port(self) -> int:
        return self.settings.listeners.extender.address.port


def decides_nothing(stage: Stage, *, one_node: bool = False) -> Entrant:
    """`baseline_extender.py`: it accepts all nodes and binds, or `one_node` and kube-scheduler binds."""
    _, settings = _settings(stage, "" if one_node else ALL_NODES)
    port = settings.listeners.extender.address.port
    launch = Launch(
        name="decides-nothing",
        program=Path(sys.executable),
        arguments=(
            str(_HERE / "baseline_extender.py"),
            f"--kubeconfig={stage.control_plane.kubeconfig('slackwater')}",
            f"--port={port}",
            *(("--one-node",) if one_node else ()),
        ),
        url=f"http://{LOOPBACK}:{port}",
        ready_paths=("/readyz",),
    )
    return Entrant(launch=launch, settings=settings)


def service(stage: Stage, command: ServiceCommand, *, kubeconfig: Path | None = None, more: str = "") -> Entrant:
    """`slackwater serve` as a process of its own, with the default settings and `more`; `kubeconfig` may be another way to the
    API server."""
    text, settings = _settings(stage, more)
    file = stage.folder / f"{command.name}.yaml"
    file.write_text(text)
    launch = Launch(
        name=command.name,
        program=command.program,
        arguments=(
            *command.arguments,
            "serve",
            f"--config={file}",
            f"--kubeconfig={kubeconfig or stage.control_plane.kubeconfig('slackwater')}",
        ),
        url=f"http://{settings.listeners.ops.address}",
        ready_paths=("/readyz",),
    )
    return Entrant(launch=launch, settings=settings)


def echo(stage: Stage) -> Launch:
    """`echo_server.py`."""
    port = stage.ports.take()
    return Launch(
        name="echo",
        program=Path(sys.executable),
        arguments=(str(_HERE / "echo_server.py"), f"--port={port}"),
        url=f"http://{LOOPBACK}:{port}",
        ready_paths=("/2",),
    )


def scheduler_config(entrant: Entrant | None, edit: Callable[[dict[str, Any]], None] | None = None) -> str:
    """The configuration that the service writes for a kube-scheduler; without an extender the same less what is there for the
    extender: itself, and how few nodes are to be scored."""
    text = generate(Settings() if entrant is None else entrant.settings, kubeconfig=None, extender_url=None)
    document = yaml.safe_load(text)
    if entrant is None:
        del document["extenders"]
        for profile in document["profiles"]:
            del profile["percentageOfNodesToScore"]
    if edit is not None:
        edit(document)
    return yaml.safe_dump(document)


def _settings(stage: Stage, more: str = "") -> tuple[str, Settings]:
    ports = {name: stage.ports.take() for name in ("extender", "agents", "ops")}
    text = HEADER + _TEXT.format(host=LOOPBACK, **ports) + more
    return text, loads(text)
