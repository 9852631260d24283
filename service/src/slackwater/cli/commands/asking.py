"""Asking the ops listener of a running service: the options that name it, and one request."""

import argparse
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from slackwater.app.progress import Progress, shown
from slackwater.cli.commands.failure import ANSWERED_NO, CommandFailed

if TYPE_CHECKING:
    import httpx

DEFAULT_URL: Final = "http://127.0.0.1:10298"
#: The state of 150,000 pods is about 100 MB.
LARGEST_BODY: Final = 1 << 30
#: Without a byte for this long the service counts as stuck.
SILENCE_SECONDS: Final = 60.0
_MOST_WORDS: Final = 200


def add_listener(parser: argparse.ArgumentParser) -> None:
    """Which service, and how it is trusted."""
    parser.add_argument("--url", default=DEFAULT_URL, help=f"the ops listener (default: {DEFAULT_URL})")
    parser.add_argument("--ca-file", metavar="F", help="CA of the listener's certificate, for https")
    parser.add_argument("--cert-file", metavar="F", help="client certificate, for https")
    parser.add_argument("--key-file", metavar="F", help="private key of --cert-file")


def fetch(path: str, args: argparse.Namespace, body: bytes | None = None) -> bytes:
    """What a GET, or a POST with this body, is answered with 200; `CommandFailed` for all else, with what the listener says."""
    import httpx

    url = f"{args.url.rstrip('/')}{path}"
    told = bytearray()
    try:
        # Proxies of the environment are for the world outside, not for a listener on loopback.
        with (
            shown() as progress,
            httpx.Client(verify=_trust(args), timeout=SILENCE_SECONDS, trust_env=False) as client,
            _asked(client, url, body, progress) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                reason = _said(answer.read())
                raise CommandFailed([f"{url}: got status {answer.status_code}, want 200: {reason}"], code=ANSWERED_NO)
            for part in answer.iter_bytes():
                told += part
                progress.at(answer.num_bytes_downloaded)
                if len(told) > LARGEST_BODY:
                    raise CommandFailed([f"{url}: got more than {LARGEST_BODY} bytes"], code=ANSWERED_NO)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as err:
        raise CommandFailed([f"--url: got {args.url}, want http://HOST:PORT ({err})"]) from err
    except httpx.HTTPError as err:
        raise CommandFailed([f"{url}: {str(err) or type(err).__name__}; does the service run?"], code=ANSWERED_NO) from err
    return bytes(told)


@contextmanager
def _asked(client: "httpx.Client", url: str, body: bytes | None, progress: Progress) -> Iterator["httpx.Response"]:
    """The answer, before its body is read; the first question to `explain` takes seconds in a large cluster."""
    progress.step(f"asking {url}")
    with client.stream("GET" if body is None else "POST", url, content=body) as answer:
        length = answer.headers.get("content-length", "")
        progress.step(f"reading what {url} answers", total=int(length) if length.isdigit() else None)
        yield answer


def _said(body: bytes) -> str:
    """The detail of an error, or its first words."""
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, TypeError, KeyError):
        detail = None
    return detail if isinstance(detail, str) else body[:_MOST_WORDS].decode(errors="replace").strip()


def _trust(args: argparse.Namespace) -> ssl.SSLContext | bool:
    if args.key_file and not args.cert_file:
        raise CommandFailed(["--key-file: got no --cert-file, want the certificate of the key"])
    if not (args.ca_file or args.cert_file):
        return True
    try:
        context = ssl.create_default_context(cafile=args.ca_file)
        if args.cert_file:
            context.load_cert_chain(args.cert_file, args.key_file)
    except (OSError, ssl.SSLError) as err:
        raise CommandFailed([f"--ca-file, --cert-file, --key-file: {err}"]) from err
    return context
