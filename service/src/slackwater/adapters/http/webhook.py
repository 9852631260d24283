"""Sends messages to a webhook, as Slack takes them: one POST of `{"text": ...}`.

The address is a secret: it is read from a file for each message, and no error names more of it than an allowed host. What it
reaches is bounded by a list of hosts, TLS, a deadline, and neither redirects nor proxies nor cookies. The answer is not read.
"""

from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import aiohttp
import anyio
import anyio.to_thread
from yarl import URL

from slackwater.controllers.notifications.loop import Undelivered

_MOST_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """`url_file`: the file with the address. `hosts`: those that it may have. `seconds`: the deadline of a message."""

    url_file: str
    hosts: frozenset[str]
    seconds: float

    async def send(self, text: str) -> None:
        """Sends a message. Raises `Undelivered`."""
        try:
            with anyio.fail_after(self.seconds):
                text_of_file = await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        except TimeoutError as error:
            raise Undelivered(f"{self.url_file}: could not be read within {self.seconds:g} s") from error
        url = self._checked(text_of_file)
        try:
            with anyio.fail_after(self.seconds):
                async with (
                    aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as http,
                    http.post(url, json={"text": text}, allow_redirects=False) as answer,
                ):
                    status = answer.status
        except TimeoutError as error:
            raise Undelivered(f"{url.host}: no answer within {self.seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Undelivered(f"{url.host}: {type(error).__name__}") from error
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise Undelivered(f"{url.host}: answered {status}, want 200")

    def _read(self) -> str:
        try:
            with Path(self.url_file).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise Undelivered(f"{self.url_file}: more than {_MOST_BYTES} bytes, want an address")
            return data.decode("ascii").strip()
        except OSError as error:
            raise Undelivered(f"{self.url_file}: {error.strerror or error}") from error
        except UnicodeError:
            raise Undelivered(f"{self.url_file}: not ASCII, want an address") from None

    def _checked(self, text: str) -> URL:
        try:
            url = URL(text)
            host = (url.raw_host or "").lower()
            port = url.port
        except ValueError:
            raise Undelivered(f"{self.url_file}: no address of a webhook, want https://HOST/PATH") from None
        if url.scheme not in {"http", "https"} or not host or port is None or url.raw_user is not None:
            raise Undelivered(f"{self.url_file}: no address of a webhook, want https://HOST/PATH")
        if host not in self.hosts:
            raise Undelivered(f"{self.url_file}: its host is not one of notifications.webhook.allowedHosts")
        if url.scheme == "http" and not _is_here(host):
            raise Undelivered(f"{self.url_file}: {host} over http, want https")
        return url


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
