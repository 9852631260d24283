"""Authenticates agents, by client certificate or by a bound ServiceAccount token that the API server reviews.

The result is a `Caller` bound to one node, or a refusal. A caller may ask for that node's pods only; the permit service checks
this. Reviews are cached, within a limit and never beyond the token's own expiry. A token's content is never trusted without a
review; its expiry is read only to shorten the caching.

Only so many reviews run at once (`ReviewQueue`). A caller whose token was accepted before waits for no caller whose token was
not. Tokens that are not known queue by the address that sent them, and the addresses take turns: a thousand random tokens from
one address delay a caller from another address by one review.
"""

import base64
import binascii
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import anyio
import msgspec

from slackwater.adapters.http.application import Headers
from slackwater.model.ids import Instant, NodeName
from slackwater.model.permits import Caller, PermitRefusal
from slackwater.ports.protocols import TokenReview, TokenReviewer

_ACCOUNT: Final = "system:serviceaccount:"
_BEARER: Final = b"bearer "
#: Bytes. A longer token is refused without a review: bound tokens have about a thousand characters.
_LONGEST_TOKEN: Final = 16_384
#: A failed review is cached for this long, so that requests with the same token do not all wait for the same timeout.
_RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatorConfig:
    """Settings of which agents are accepted: by certificate, by token, or both. With neither, no `Authenticator` is created."""

    certificate_prefix: str | None = None  #: prefix of the CN before the node's name. None: certificates are not accepted
    service_accounts: frozenset[str] = frozenset()  #: accepted ServiceAccounts, as "namespace/name"
    keep_seconds: float = 120.0  #: caching of an accepted token; the kubelet caches its own reviews as long
    refuse_seconds: float = 10.0  #: caching of a refused token
    review_seconds: float = 3.0  #: timeout of one review; agents' own timeout is a few seconds longer
    max_tokens: int = 16_384  #: limit of cached accepted tokens, and of refused ones; a node has one agent, so one token
    max_reviews: int = 16  #: limit of concurrent reviews


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """The cached result of a review, valid until `ends_at`."""

    answer: Caller | PermitRefusal
    ends_at: Instant


class Authenticator:
    """Determines the caller of a request, or the refusal to answer with.

    `clock` is the monotonic clock of the cache; `unix_seconds` is the wall clock, with which a token's expiry is compared.
    """

    def __init__(
        self,
        config: AuthenticatorConfig,
        reviewer: TokenReviewer | None,
        *,
        clock: Callable[[], Instant],
        unix_seconds: Callable[[], float],
    ) -> None:
        self._config = config
        self._reviewer = reviewer
        self._clock = clock
        self._unix_seconds = unix_seconds
        #: Results by digest. Refused tokens are kept apart, so that no number of them displaces an accepted one. An accepted
        #: token whose time is over stays here: its caller is known, and its next review comes before those of unknown callers.
        self._accepted: OrderedDict[bytes, _Reviewed] = OrderedDict()
        self._refused: OrderedDict[bytes, _Reviewed] = OrderedDict()
        self._under_review: dict[bytes, anyio.Event] = {}
        self._reviews = ReviewQueue(config.max_reviews)

    def at_once(self, headers: Headers, peer: str | None) -> Caller | PermitRefusal | None:
        """Returns the caller or the refusal; None if the token must be reviewed first.

        `peer` is the common name of the client certificate, None without one.
        """
        name, prefix = peer, self._config.certificate_prefix
        if name is not None and prefix is not None and len(name) > len(prefix) and name.startswith(prefix):
            return Caller(node=NodeName(name[len(prefix) :]), name=name)
        token = _bearer(headers) if self._reviewer is not None else None
        if token is not None and len(token) > _LONGEST_TOKEN:
            return _refused(401, "bad_token", f"bearer token: {len(token)} bytes, want at most {_LONGEST_TOKEN}")
        if token is not None:
            kept = self._fresh(sha256(token).digest())
            return None if kept is None else kept.answer
        if name is not None and prefix is not None:
            return _refused(403, "other_certificate", f"certificate of {name!r} names no node: want CN {prefix}<node>")
        wanted = [*(["a client certificate"] if prefix is not None else []), *(["a bearer token"] if self._reviewer else [])]
        return _refused(401, "unauthenticated", f"who are you? want {' or '.join(wanted)}")

    async def caller(self, headers: Headers, peer: str | None, address: str = "") -> Caller | PermitRefusal:
        """Returns the caller or the refusal, after a review of the token if needed. `address`: the caller's IP address."""
        known = self.at_once(headers, peer)
        if known is not None:
            return known
        token = _bearer(headers)
        assert token is not None
        assert self._reviewer is not None
        seconds = 2 * self._config.review_seconds
        with anyio.move_on_after(seconds):
            return await self._once(sha256(token).digest(), token, address, self._reviewer)
        return _refused(503, "not_reviewed", f"bearer token: not reviewed within {seconds:g} s")

    async def _once(self, digest: bytes, token: bytes, address: str, reviewer: TokenReviewer) -> Caller | PermitRefusal:
        """Reviews a token once; concurrent requests with the same token wait for that review."""
        while (kept := self._fresh(digest)) is None:
            if (going_on := self._under_review.get(digest)) is not None:
                await going_on.wait()
                continue
            self._under_review[digest] = anyio.Event()
            try:
                async with self._reviews.place(address, known=digest in self._accepted):
                    answer, seconds = await self._reviewed(token, reviewer)
                if seconds <= 0:
                    return answer
                results = self._accepted if isinstance(answer, Caller) else self._refused
                results[digest] = _Reviewed(answer, Instant(self._clock() + seconds))
                results.move_to_end(digest)
                if len(results) > self._config.max_tokens:
                    results.popitem(last=False)
            finally:
                self._under_review.pop(digest).set()
        return kept.answer

    def _fresh(self, digest: bytes) -> _Reviewed | None:
        for results in (self._accepted, self._refused):
            kept = results.get(digest)
            if kept is not None and kept.ends_at > self._clock():
                results.move_to_end(digest)
                return kept
        return None

    async def _reviewed(self, token: bytes, reviewer: TokenReviewer) -> tuple[Caller | PermitRefusal, float]:
        """Reviews a token; returns the result and for how many seconds it may be cached."""
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            return _refused(401, "bad_token", "bearer token: not ASCII"), self._config.refuse_seconds
        reviewed = await reviewer.review(text, timeout_seconds=self._config.review_seconds)
        if reviewed.verdict == "unasked":
            return _refused(503, "not_reviewed", f"bearer token: could not be reviewed: {reviewed.detail}"), _RETRY_SECONDS
        if reviewed.verdict == "unknown":
            return _refused(401, "bad_token", f"bearer token: {reviewed.detail}"), self._config.refuse_seconds
        answer = self._known(reviewed)
        if isinstance(answer, PermitRefusal):
            return answer, self._config.refuse_seconds
        return answer, min(self._config.keep_seconds, _expiry(token) - self._unix_seconds())

    def _known(self, reviewed: TokenReview) -> Caller | PermitRefusal:
        account = reviewed.user.removeprefix(_ACCOUNT).replace(":", "/", 1) if reviewed.user.startswith(_ACCOUNT) else ""
        if account not in self._config.service_accounts:
            wanted = ", ".join(sorted(self._config.service_accounts))
            return _refused(403, "other_account", f"{reviewed.user}: want the ServiceAccount {wanted}")
        if not reviewed.node:
            text = f"{reviewed.user}: the token is bound to no node, want one that a kubelet projected into a Pod"
            return _refused(403, "unbound_token", text)
        return Caller(node=NodeName(reviewed.node), name=reviewed.user)


def _refused(status: int, code: str, message: str) -> PermitRefusal:
    return PermitRefusal(status=status, code=code, message=message)


def _bearer(headers: Headers) -> bytes | None:
    for name, value in headers:
        if name == b"authorization" and value[: len(_BEARER)].lower() == _BEARER:
            return value[len(_BEARER) :].strip() or None
    return None


class _Claims(msgspec.Struct):
    exp: float = float("inf")


_claims: Final = msgspec.json.Decoder(_Claims)


def _expiry(token: bytes) -> float:
    """Returns a JWT's expiry in Unix seconds; infinity if it has none. The API server has verified the token already."""
    try:
        payload = token.split(b".")[1]
        return _claims.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4))).exp
    except (IndexError, binascii.Error, msgspec.DecodeError):
        return float("inf")


class ReviewQueue:
    """Hands out `most` places at a time."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._known: deque[anyio.Event] = deque()
        #: The callers that wait, by address. The address whose turn is next comes first; none has an empty queue.
        self._by_address: OrderedDict[str, deque[anyio.Event]] = OrderedDict()

    @asynccontextmanager
    async def place(self, address: str, *, known: bool) -> AsyncIterator[None]:
        """Waits for a place, and holds it. `known`: the caller's token was accepted before."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(address, known=known)
        try:
            yield
        finally:
            self._pass_on()

    async def _turn(self, address: str, *, known: bool) -> None:
        turn = anyio.Event()
        queue = self._known if known else self._by_address.setdefault(address, deque())
        queue.append(turn)
        try:
            await turn.wait()
        except anyio.get_cancelled_exc_class():
            if turn.is_set():
                self._pass_on()
            else:
                queue.remove(turn)
                if not queue and not known:
                    del self._by_address[address]
            raise

    def _pass_on(self) -> None:
        if self._known:
            self._known.popleft().set()
        elif self._by_address:
            address, queue = self._by_address.popitem(last=False)
            queue.popleft().set()
            if queue:
                self._by_address[address] = queue
        else:
            self._free += 1
