"""The TLS files of one listener: loaded before anything starts, and read again while it runs.

Flows through: three PEM files -> an `ssl.SSLContext`, a new one for each new content. A content counts once two reads in a
row agree, since certificate, key and CA are swapped one after another; what cannot be used keeps the old context in use, and
is told once (log, metrics, `/statusz`). Deliberately absent: the listener that uses the context, and what becomes of
connections that are open: they go on with what they began with.
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

#: Nobody's chain is longer; what is larger is no certificate but a mistake.
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
        self.renewals = self.refusals = 0  #: contents taken into use after the first, and not taken
        self.problem: str | None = None  #: why the present content of the files is not in use
        if self.not_after <= unix_seconds():
            _log.error("the certificate has expired", listener=listener, file=files.cert_file)

    async def watch(self) -> None:
        """Keeps `context` at what the files hold. Until cancelled."""
        thread = anyio.CapacityLimiter(1)  # a read that hangs keeps its thread; the next one must not take another
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
        if content == self._content:  # what is in use is there again
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
        """Unix seconds of the first certificate's end."""
        try:
            pem = Path(self._files.cert_file).read_bytes()
            return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
        except (OSError, ValueError) as error:
            raise ListenError(f"listeners.{self.listener}.tls.certFile: {self._files.cert_file}: {error}") from error


def _content(paths: tuple[str, ...]) -> bytes:
    """What stands for the content of the files; equal for equal contents, and for equal reasons why there is none."""
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
    # Who comes again shows the certificate again: a ticket would let it in after its certificate's end.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


class _Encrypted(Exception):
    pass


def _no_password() -> NoReturn:
    """Instead of OpenSSL's own question, which would wait at a terminal for ever."""
    raise _Encrypted("the private key is encrypted, want one that is not")


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    return str(error)
