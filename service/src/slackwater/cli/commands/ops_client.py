"""Finds a running service and sends requests to its ops listener. Commands reach the service only by this module.

The service is looked for in this order: at `--url`; on loopback, unless a cluster is named or kubectl runs the command; in the
kubeconfig's cluster, through the API server's port-forward (docs/adr/0196), or for an account that may not forward ports,
through its services/proxy (docs/adr/0297), which only reads.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from slackwater.app.progress import Progress, shown
from slackwater.cli.commands.cluster import add_cluster
from slackwater.cli.commands.output import FORBIDDEN, NO_ANSWER, CommandFailed, code_of_status

if TYPE_CHECKING:
    import ssl

    import httpx

DEFAULT_URL: Final = "http://127.0.0.1:10298"
#: The largest answer that is read: the state of 150,000 pods is about 100 MB.
LARGEST_BODY: Final = 1 << 30
#: A request fails if no byte arrives for this long.
SILENCE_SECONDS: Final = 60.0
_MOST_WORDS: Final = 200
_CONNECT_SECONDS: Final = 1.0
_READS_ONLY: Final = "through services/proxy the service can only be read; `simulate` without --live reads its state"


def add_listener(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name the service and how its TLS is verified."""
    parser.add_argument(
        "--url", help=f"the ops listener (default: {DEFAULT_URL} if something listens there, else the cluster's service)"
    )
    parser.add_argument(
        "--scheduler-name",
        metavar="NAME",
        default="slackwater",
        help="whose service to find (default: slackwater)",
    )
    parser.add_argument("--ca-file", metavar="F", help="CA of the listener's certificate, for https")
    parser.add_argument("--cert-file", metavar="F", help="client certificate, for https")
    parser.add_argument("--key-file", metavar="F", help="private key of --cert-file")
    add_cluster(parser)


class ServiceNotFound(CommandFailed):
    """No service was found: nothing listens at the address, or no replica runs in the cluster."""


def fetch(path: str, args: argparse.Namespace, body: bytes | None = None) -> bytes:
    """As `fetch_parts`; returns the whole body."""
    answered = bytearray()
    fetch_parts(answered.extend, path, args, body)
    return bytes(answered)


def fetch_parts(take: Callable[[bytes], object], path: str, args: argparse.Namespace, body: bytes | None = None) -> None:
    """Requests the path from the service, by GET or, with a body, by POST. Hands the body of the answer with status 200 to
    `take`, in parts.

    Raises `ServiceNotFound` if no service is found, and `CommandFailed` with the listener's message for other answers.
    """
    with shown(forced=args.progress) as progress:
        if args.url is not None:
            _read(ServiceTarget(args.url, args.url, _tls_verification(args)), path, body, progress, take)
        elif not (args.kubeconfig or args.context or args.plugin) and listens():
            _read(ServiceTarget(DEFAULT_URL, DEFAULT_URL, _tls_verification(args)), path, body, progress, take)
        else:
            progress.step("looking for the service in the cluster")
            try:
                _read_in_cluster(args, path, body, progress, take)
            except ServiceNotFound as forbidden:
                if forbidden.code != FORBIDDEN:
                    raise
                if body is not None:
                    raise ServiceNotFound([*forbidden.lines, _READS_ONLY], code=FORBIDDEN) from forbidden
                from slackwater.cli.commands.service_proxy import read_by_proxy

                read_by_proxy(args, path, progress, take, forbidden)


def _read_in_cluster(
    args: argparse.Namespace, path: str, body: bytes | None, progress: Progress, take: Callable[[bytes], object]
) -> None:
    from slackwater.cli.commands.port_forward import in_cluster

    with in_cluster(args, _tls_verification(args)) as target:
        _read(target, path, body, progress, take)


def path_of(command: str, args: argparse.Namespace) -> str:
    """The path at which the service answers the command about the object of the arguments, which are settled
    (`object_names`)."""
    return f"/{command}/{args.kind}s/{'/'.join(quote(piece, safe='') for piece in args.name.split('/'))}"


def url_of(args: argparse.Namespace) -> str:
    """The name of the service in errors about its answers: `--url`, or "the service"."""
    return str(args.url or "the service")


class ServiceTarget:
    """The destination of requests: its base URL, its name in messages, and which certificates TLS trusts (False: all)."""

    def __init__(self, url: str, name: str, trust: "ssl.SSLContext | bool") -> None:
        self.url = url.rstrip("/")
        self.name = name.rstrip("/")
        self.trust = trust


def listens() -> bool:
    """Does something listen at `DEFAULT_URL` on loopback: a service on this host, or a port-forward to one?"""
    import socket

    url = urlsplit(DEFAULT_URL)
    try:
        with socket.create_connection((url.hostname, url.port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _read(target: ServiceTarget, path: str, body: bytes | None, progress: Progress, take: Callable[[bytes], object]) -> None:
    import httpx

    url, name = f"{target.url}{path}", f"{target.name}{path}"
    answered = 0
    try:
        # Ignores proxies that environment variables name, which are not meant for a listener on loopback.
        with (
            httpx.Client(verify=target.trust, timeout=SILENCE_SECONDS, trust_env=False) as client,
            _asked(client, url, name, body, progress) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise refusal(name, answer.status_code, answer.read())
            for part in answer.iter_bytes():
                answered += len(part)
                progress.at(answer.num_bytes_downloaded)
                if answered > LARGEST_BODY:
                    raise CommandFailed([f"{name}: got more than {LARGEST_BODY} bytes"], code=NO_ANSWER)
                take(part)
    except httpx.ConnectError as err:
        raise ServiceNotFound([f"{name}: {str(err) or type(err).__name__}; does the service run?"], code=NO_ANSWER) from err
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as err:
        raise CommandFailed([f"--url: got {target.name}, want http://HOST:PORT ({err})"]) from err
    except httpx.HTTPError as err:
        raise CommandFailed([f"{name}: {str(err) or type(err).__name__}; does the service run?"], code=NO_ANSWER) from err


@contextmanager
def _asked(client: "httpx.Client", url: str, name: str, body: bytes | None, progress: Progress) -> Iterator["httpx.Response"]:
    """Sends the request and yields the answer, before its body is read. Shows progress meanwhile, because the first request to
    `explain` takes seconds in a large cluster."""
    progress.step(f"asking {name}")
    with client.stream("GET" if body is None else "POST", url, content=body) as answer:
        length = answer.headers.get("content-length", "")
        progress.step(f"reading what {name} answers", total=int(length) if length.isdigit() else None)
        yield answer


def decoded(source: str, body: bytes, key: str, want: str) -> dict[str, Any]:
    """The answer of `source`: a mapping with a list at `key`. Raises `CommandFailed` for any other; `want` says what was
    expected."""
    try:
        answer = json.loads(body)
    except ValueError as err:
        raise CommandFailed([f"{source}: got no JSON: {err}"], code=NO_ANSWER) from err
    if not isinstance(answer, dict) or not isinstance(answer.get(key), list):
        raise CommandFailed([f"{source}: got JSON without a list of {key}, want {want}"], code=NO_ANSWER)
    return answer


def refusal(name: str, status: int, body: bytes) -> CommandFailed:
    """The error for an answer of the listener that is no success. Its message is the body's `detail`; a body without one is
    not our listener's, whatever the status says."""
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, TypeError, KeyError):
        detail = None
    if isinstance(detail, str):
        return CommandFailed([f"{name}: got status {status}, want 200: {detail}"], code=code_of_status(status))
    text = body[:_MOST_WORDS].decode(errors="replace").strip()
    reason = "a page of HTML, want Slackwater's ops listener" if text.startswith("<") else text
    return CommandFailed([f"{name}: got status {status}, want 200: {reason}"], code=NO_ANSWER)


def _tls_verification(args: argparse.Namespace) -> "ssl.SSLContext | bool":
    if args.key_file and not args.cert_file:
        raise CommandFailed(["--key-file: got no --cert-file, want the certificate of the key"])
    if not (args.ca_file or args.cert_file):
        return True
    import ssl

    try:
        context = ssl.create_default_context(cafile=args.ca_file)
        if args.cert_file:
            context.load_cert_chain(args.cert_file, args.key_file)
    except (OSError, ssl.SSLError) as err:
        raise CommandFailed([f"--ca-file, --cert-file, --key-file: {err}"]) from err
    return context
