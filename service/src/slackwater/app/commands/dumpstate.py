"""`slackwater dumpstate`: the state of a running service, as its ops listener gives it."""

import argparse
import json
import ssl
import sys
from collections.abc import Iterator
from typing import Any, Final

from slackwater.app.commands.failure import ANSWERED_NO, CommandFailed

DEFAULT_URL: Final = "http://127.0.0.1:10298"
#: The state of 150,000 pods is about 100 MB.
LARGEST_BODY: Final = 1 << 30
#: Without a byte for this long the service counts as stuck.
SILENCE_SECONDS: Final = 30.0

_LISTS: Final = ("pods", "migrationQueue", "holds", "nominations", "gates", "migrations")
_HEADINGS: Final = ("NODE", "CPU RESERVED", "CPU TOTAL", "CPU %", "MEM RESERVED", "MEM TOTAL", "MEM %")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "dumpstate",
        help="print the state of a running service",
        description="Asks the ops listener of a running service for its whole state: nodes, pods, holds, queues. The "
        "table shows what each node has promised; -o json prints everything, milliCPU and bytes.",
    )
    parser.add_argument("--url", default=DEFAULT_URL, help=f"the ops listener (default: {DEFAULT_URL})")
    parser.add_argument("--ca-file", metavar="F", help="CA of the listener's certificate, for https")
    parser.add_argument("--cert-file", metavar="F", help="client certificate, for https")
    parser.add_argument("--key-file", metavar="F", help="private key of --cert-file")
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table", help="default: table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    url = f"{args.url.rstrip('/')}/dumpstate"
    body = _fetch(url, args)
    state = _decoded(url, body)
    if args.output == "json":
        sys.stdout.write(body.decode().rstrip("\n") + "\n")
        return 0
    print("\n".join(_table(state)))
    return 0


def _fetch(url: str, args: argparse.Namespace) -> bytes:
    import httpx

    body = bytearray()
    try:
        # Proxies of the environment are for the world outside, not for a listener on loopback.
        with (
            httpx.Client(verify=_trust(args), timeout=SILENCE_SECONDS, trust_env=False) as client,
            client.stream("GET", url) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                reason = answer.read()[:200].decode(errors="replace").strip()
                raise CommandFailed([f"{url}: got status {answer.status_code}, want 200: {reason}"], code=ANSWERED_NO)
            for part in answer.iter_bytes():
                body += part
                if len(body) > LARGEST_BODY:
                    raise CommandFailed([f"{url}: got more than {LARGEST_BODY} bytes"], code=ANSWERED_NO)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as err:
        raise CommandFailed([f"--url: got {args.url}, want http://HOST:PORT ({err})"]) from err
    except httpx.HTTPError as err:
        raise CommandFailed([f"{url}: {str(err) or type(err).__name__}; does the service run?"], code=ANSWERED_NO) from err
    return bytes(body)


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


def _decoded(url: str, body: bytes) -> dict[str, Any]:
    try:
        state = json.loads(body)
    except ValueError as err:
        raise CommandFailed([f"{url}: got no JSON: {err}"], code=ANSWERED_NO) from err
    if not isinstance(state, dict) or not isinstance(state.get("nodes"), list):
        raise CommandFailed([f"{url}: got JSON without a list of nodes, want a dumpstate"], code=ANSWERED_NO)
    return state


def _table(state: dict[str, Any]) -> Iterator[str]:
    rows = [_HEADINGS, *(_row(node) for node in state["nodes"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        cells = (text.ljust(width) if not column else text.rjust(width) for column, (text, width) in _cells(row, widths))
        yield "  ".join(cells).rstrip()
    yield ", ".join(f"{name}: {len(state[name])}" for name in _LISTS if isinstance(state.get(name), list | dict))


def _cells(row: tuple[str, ...], widths: list[int]) -> Iterator[tuple[int, tuple[str, int]]]:
    return iter(enumerate(zip(row, widths, strict=True)))


def _row(node: dict[str, Any]) -> tuple[str, ...]:
    from slackwater_protocol.units import quantity_text_cpu, quantity_text_memory

    cpu, memory = node["cpu"], node["memory"]
    return (
        str(node["name"]),
        quantity_text_cpu(cpu["reserved"]),
        quantity_text_cpu(cpu["total"]),
        _percent(cpu),
        quantity_text_memory(memory["reserved"]),
        quantity_text_memory(memory["total"]),
        _percent(memory),
    )


def _percent(amounts: dict[str, int]) -> str:
    return f"{100 * amounts['reserved'] / amounts['total']:.0f}" if amounts["total"] else "-"
