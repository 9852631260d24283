"""The TLS files of one listener: loaded at the start, and read again while the listener runs.

Three PEM files become an `ssl.SSLContext`, a new one for each new content. New content is used after two equal reads in a row,
because certificate, key and CA are replaced one after another. If it is invalid, the old context stays in use and the problem
is reported once (log, metrics, `/statusz`). Open connections keep the context with which they began.
"""

import hashlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn

import anyio
import anyio.to_thread
import structlog
from cryptography import x509

_log = structlog.get_logger(__name__)

#: Larger files are refused: no certificate chain is that long.
_LARGEST_FILE: Final = 1 << 20
_READ_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Paths of PEM files. With a client CA, callers must present a certificate that it signed; `may` if optional."""

    cert_file: str
    key_file: str
    client_ca_file: str | None
    client_certificate: Literal["must", "may"] = "must"


class ListenError(Exception):
    """A listener cannot be opened: its address, or its TLS files; the message names listener, what was seen and the cause."""


class Certificates:
    """The present TLS context of one listener. `unix_seconds` reads the date that an expiry is compared with.

    :raises ListenError: a file is missing, or is not what it should be.
    """

    def __init__(self, listener: str, files: Tls, *, unix_seconds: Callable[[], float], interval_seconds: float = 5.0) -> None:
        self.listener: Final = listener
        self._files = files
        self._unix_seconds = unix_seconds
        self._interval_seconds = interval_seconds
        self._content = _content(self._paths)
        self.context = _context(listener, files)
        self.not_after = self._expiry()  #: of the certificate in use; Unix seconds
        self.renewals = self.refusals = 0  #: how many new contents were taken into use, and how many were refused
        self.problem: str | None = None  #: why the present content of the files is not used
        if self.not_after <= unix_seconds():
            _log.error("the certificate has expired", listener=listener, file=files.cert_file)

    async def watch(self) -> None:
        """Keeps `context` equal to the files, until cancelled."""
        thread = anyio.CapacityLimiter(1)  # a read that hangs keeps its thread, and the next one must not take another thread
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
        if content == self._content:  # the content in use has come back
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
        """The expiry of the first certificate, in Unix seconds."""
        try:
            pem = Path(self._files.cert_file).read_bytes()
            return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
        except (OSError, ValueError) as error:
            raise ListenError(f"listeners.{self.listener}.tls.certFile: {self._files.cert_file}: {error}") from error


def _content(paths: tuple[str, ...]) -> bytes:
    """A value that identifies the files' content, or the error of reading them. Equal contents and equal errors give equal
    values."""
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


def _context(listener: str, files: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    at = f"listeners.{listener}.tls"
    try:
        context.load_cert_chain(files.cert_file, files.key_file, password=_no_password)
    except (OSError, ssl.SSLError, _Encrypted) as error:
        raise ListenError(f"{at}: cannot load {files.cert_file} with {files.key_file}: {_told(error)}") from error
    if files.client_ca_file is None:
        return context
    try:
        context.load_verify_locations(files.client_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ListenError(f"{at}.clientCAFile: cannot load {files.client_ca_file}: {_told(error)}") from error
    context.verify_mode = ssl.CERT_REQUIRED if files.client_certificate == "must" else ssl.CERT_OPTIONAL
    # No session tickets: a client could come back with one after its certificate has expired.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


class _Encrypted(Exception):
    pass


def _no_password() -> NoReturn:
    """Refuses an encrypted key. OpenSSL would ask for the password at a terminal, and wait for ever."""
    raise _Encrypted("the private key is encrypted, want one that is not")


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    return str(error)
