"""Reaches the ops listener of the service in the kubeconfig's cluster, through the API server."""

import argparse
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Final

import httpx
from anyio.from_thread import start_blocking_portal

from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.errors import KubeConfigError, KubeError, StatusError, Unreachable
from slackwater.adapters.kube.port_forward import ForwardedPort, forward_port
from slackwater.app.running_service import Replicas, find_replicas, looked_for
from slackwater.cli.commands import ops_client
from slackwater.cli.commands.cluster import OTHER_CLUSTER, kubeconfig_of
from slackwater.cli.commands.ops_client import ServiceNotFound, ServiceTarget
from slackwater.cli.commands.output import FORBIDDEN, NO_ANSWER, CommandFailed, code_of_status

_PROBE_SECONDS: Final = 15.0
_MOST_NAMED: Final = 4


@contextmanager
def in_cluster(args: argparse.Namespace, trust: ssl.SSLContext | bool) -> Iterator[ServiceTarget]:
    """Opens a port-forward to the leader of the service in the cluster, or to another replica if none leads, and yields its
    target. Raises `ServiceNotFound`, which says what was looked for, and `CommandFailed`."""
    try:
        kubeconfig = kubeconfig_of(args)
    except CommandFailed as failed:
        raise ServiceNotFound(
            [f"nothing listens on {ops_client.DEFAULT_URL}; --url names another address", *failed.lines]
        ) from None
    with start_blocking_portal() as portal:
        tunnel = portal.wrap_async_context_manager(_tunnel(kubeconfig, args, trust))
        found = tunnel.__enter__()
        try:
            if isinstance(found, CommandFailed):
                raise found
            yield found
        finally:  # the tunnel's task groups do not see errors of the caller, because they would wrap them in a group
            tunnel.__exit__(None, None, None)


@asynccontextmanager
async def _tunnel(
    kubeconfig: str | None, args: argparse.Namespace, trust: ssl.SSLContext | bool
) -> AsyncIterator[ServiceTarget | CommandFailed]:
    """Opens port-forwards to the replicas until one leads. Yields the target of the leader or of another replica that answers,
    or the error that says why none does."""
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(open_client(kubeconfig=kubeconfig, context=args.context))
            replicas = await find_replicas(client, args.scheduler_name)
        except KubeConfigError as error:
            yield CommandFailed([f"{error}; --kubeconfig names another file"])
            return
        except KubeError as error:
            code = code_of_status(error.code) if isinstance(error, StatusError) else NO_ANSWER
            yield ServiceNotFound(_unreadable(error, args.scheduler_name), code=code)
            return
        problems, standby = [], None
        for replica in replicas.running:
            port = await stack.enter_async_context(forward_port(client, replica.pod, replica.port))
            scheme, known = ("https", _inside(trust)) if replica.tls else ("http", True)
            target = ServiceTarget(f"{scheme}://127.0.0.1:{port.port}", f"pod {replica.pod}", known)
            leads, problem = await _probe(target, port)
            if leads:
                yield target
                return
            if port.forbidden:
                yield ServiceNotFound([f"pod {replica.pod}: {port.problem}"], code=FORBIDDEN)
                return
            if problem:
                problems.append(f"pod {replica.pod}, port {replica.port}: {problem}")
            else:
                standby = standby or target
        yield standby or ServiceNotFound(_not_found_text(replicas, args.scheduler_name, problems), code=NO_ANSWER)


def _inside(trust: ssl.SSLContext | bool) -> ssl.SSLContext:
    """The TLS context for a listener behind a port-forward. The API server connects to the right Pod, so host names are not
    checked. The certificate is verified only if options name a CA or a client certificate."""
    if isinstance(trust, ssl.SSLContext):
        trust.check_hostname = False
        return trust
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _probe(target: ServiceTarget, port: ForwardedPort) -> tuple[bool, str]:
    """Asks the replica's `/statusz`. Returns whether it leads, and why it does not answer ("" if it answers)."""
    try:
        async with httpx.AsyncClient(verify=target.trust, timeout=_PROBE_SECONDS, trust_env=False) as client:
            answer = await client.get(f"{target.url}/statusz")
            if answer.status_code != HTTPStatus.OK:
                return False, f"/statusz: got status {answer.status_code}, want 200"
            return bool(json.loads(answer.content)["leader"]["leads"]), ""
    except (httpx.HTTPError, ssl.SSLError, OSError) as error:
        return False, port.problem or str(error) or type(error).__name__
    except (ValueError, TypeError, KeyError):
        return False, "/statusz: got another answer than Slackwater's, want its ops listener"


def _unreadable(error: KubeError, scheduler_name: str) -> list[str]:
    lines = [f"looked for {looked_for(scheduler_name)}: {error}"]
    if isinstance(error, StatusError) and error.code == HTTPStatus.FORBIDDEN:
        lines.append("ask for the rights to list pods, and to get and create pods/portforward, in namespace kube-system")
    if isinstance(error, Unreachable):
        lines.append(OTHER_CLUSTER)
    return lines


def _not_found_text(replicas: Replicas, scheduler_name: str, problems: list[str]) -> list[str]:
    """The error's lines if no replica answers: what was looked for, what was found instead, and what to do."""
    if problems:
        return [*problems, "the Pods are found, and none answers: want the rights to get and create pods/portforward"]
    lines = [f"found none that runs of the {looked_for(scheduler_name)}"]
    if replicas.others:
        lines.append(f"not running: {', '.join(replicas.others[:_MOST_NAMED])}; `kubectl -n kube-system describe pod` says why")
    else:
        lines.append(
            "--scheduler-name names another scheduler, --url a service elsewhere; docs/install.md says how to install it"
        )
    return lines
