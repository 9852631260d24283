"""Loads the TLS files of one listener at startup, reloads them while the service runs, and reports them as metrics.

- `Certificates`: the current TLS context of a listener.
- `certificate_families`: Prometheus metrics of expiry, refused files and renewals.

In: three PEM files. Out: an `ssl.SSLContext`, a new one after each change. Invariant: if new files cannot be used, the old
context stays in use, and the problem is reported in log, metrics and `/statusz`.
"""

import hashlib
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn

import anyio
import anyio.to_thread
import structlog
from cryptography import x509
from prometheus_client.core import Metric

from slackwater.ports.metric_families import counter, gauge

_log = structlog.get_logger(__name__)

#: Bytes that are read of a file; no certificate chain is longer.
_LARGEST_FILE: Final = 1 << 20
_READ_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The TLS files of a listener, as paths of PEM files.

    With `client_ca_file` callers must (or may, see `client_certificate`) present a certificate that this CA signed.
    """

    cert_file: str
    key_file: str
    client_ca_file: str | None
    client_certificate: Literal["must", "may"] = "must"


class ListenError(Exception):
    """A listener cannot be opened because of its address or TLS files; the message names the setting and the cause."""


class Certificates:
    """The current TLS context of one listener. `unix_seconds` is the wall clock, with which expiry is compared.

    A change is used once two reads in a row agree, since certificate, key and CA are replaced one after another. Open
    connections keep the context with which they began.

    :raises ListenError: a file is missing or invalid.
    """

    def __init__(
        self, listener: str, files: TlsFiles, *, unix_seconds: Callable[[], float], interval_seconds: float = 5.0
    ) -> None:
        self.listener: Final = listener
        self._files = files
        self._unix_seconds = unix_seconds
        self._interval_seconds = interval_seconds
        self._content = _content(self._paths)
        self.context = _context(listener, files)
        self.not_after = self._expiry()  #: expiry of the certificate in use; Unix seconds
        self.renewals = self.refusals = 0  #: changes of the files that were used, and that could not be used
        self.problem: str | None = None  #: why the present files are not in use; None if they are
        if self.not_after <= unix_seconds():
            _log.error("the certificate has expired", listener=listener, file=files.cert_file)

    async def watch(self) -> None:
        """Reads the files periodically and replaces `context` after a change, until cancelled."""
        thread = anyio.CapacityLimiter(1)  # a read that hangs keeps its thread, and later reads must not take more threads
        previous: bytes | None = None
        judged: bytes | None = self._content
        while True:
            await anyio.sleep(self._interval_seconds)
            try:
                with anyio.fail_after(_READ_SECONDS):
                    content = await anyio.to_thread.run_sync(_content, self._paths, abandon_on_cancel=True, limiter=thread)
            except TimeoutError:
                continue
            if content == previous and content != judged:
                judged = content
                await self._take(content)
            previous = content

    @property
    def _paths(self) -> tuple[str, ...]:
        files = self._files
        return (files.cert_file, files.key_file, *([files.client_ca_file] if files.client_ca_file else []))

    async def _take(self, content: bytes) -> None:
        if content == self._content:  # the files in use were restored
            self.problem = None
            return
        try:
            context, not_after = await anyio.to_thread.run_sync(self._renewed)
        except ListenError as error:
            self.refusals += 1
            self.problem = str(error)
            _log.error("new TLS files refused, the old ones stay in use", listener=self.listener, problem=str(error))
            return
        self._content, self.context, self.not_after, self.problem = content, context, not_after, None
        self.renewals += 1
        _log.info("new TLS files in use", listener=self.listener, file=self._files.cert_file)

    def _renewed(self) -> tuple[ssl.SSLContext, float]:
        context, not_after = _context(self.listener, self._files), self._expiry()
        if not_after <= self._unix_seconds():
            raise ListenError(f"listeners.{self.listener}.tls.certFile: {self._files.cert_file} has expired already")
        return context, not_after

    def _expiry(self) -> float:
        """Returns the expiry of the file's first certificate in Unix seconds."""
        try:
            pem = Path(self._files.cert_file).read_bytes()
            return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
        except (OSError, ValueError) as error:
            raise ListenError(f"listeners.{self.listener}.tls.certFile: {self._files.cert_file}: {error}") from error


def _content(paths: tuple[str, ...]) -> bytes:
    """Returns a digest of the files' contents; for a file that cannot be read, of the error."""
    found = hashlib.sha256()
    for path in paths:
        try:
            with open(path, "rb") as file:
                read = file.read(_LARGEST_FILE)
        except OSError as error:
            read = repr(error).encode()
        found.update(len(read).to_bytes(8))
        found.update(read)
    return found.digest()


def _context(listener: str, files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    at = f"listeners.{listener}.tls"
    try:
        context.load_cert_chain(files.cert_file, files.key_file, password=_no_password)
    except (OSError, ssl.SSLError, _Encrypted) as error:
        raise ListenError(f"{at}: cannot load {files.cert_file} with {files.key_file}: {_reason(error)}") from error
    if files.client_ca_file is None:
        return context
    try:
        context.load_verify_locations(files.client_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ListenError(f"{at}.clientCAFile: cannot load {files.client_ca_file}: {_reason(error)}") from error
    context.verify_mode = ssl.CERT_REQUIRED if files.client_certificate == "must" else ssl.CERT_OPTIONAL
    # No session tickets: with one a client could reconnect after its certificate has expired.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


class _Encrypted(Exception):
    pass


def _no_password() -> NoReturn:
    """Refuses to give a password; otherwise OpenSSL would wait for one at the terminal."""
    raise _Encrypted("the private key is encrypted, want one that is not")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    return str(error)


def certificate_families(certificates: Mapping[str, Certificates]) -> Iterator[Metric]:
    """Yields the metric families of each listener's `Certificates`."""
    ends = {name: held.not_after for name, held in certificates.items()}
    meaning = "When the certificate that a listener presents ends; Unix seconds."
    yield gauge("slackwater_tls_certificate_not_after_seconds", meaning, ends, "listener")
    refused = {name: held.problem is not None for name, held in certificates.items()}
    meaning = "1 while the present content of a listener's TLS files cannot be used."
    yield gauge("slackwater_tls_files_refused", meaning, refused, "listener")
    renewals = {name: held.renewals for name, held in certificates.items()}
    meaning = "New contents of a listener's TLS files that were taken into use."
    yield counter("slackwater_tls_renewals", meaning, renewals, "listener")
