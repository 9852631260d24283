"""Authenticates agents: by client certificates, and by bound ServiceAccount tokens that the API server reviews.

A caller belongs to one node and may ask for the pods of that node only; the permit service compares them. Reviews are cached
for a limited time, in limited number, and never beyond the token's expiry. Nothing that a token says about itself is trusted;
its expiry is read only to forget it sooner.
"""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import anyio
import msgspec

from slackwater.adapters.http.http_server import Headers
from slackwater.model.ids import Instant, NodeName
from slackwater.model.permits import Caller, PermitRefusal
from slackwater.ports.protocols import Reviewed, TokenReviewer

_ACCOUNT: Final = "system:serviceaccount:"
_BEARER: Final = b"bearer "
#: Longer tokens are refused unread: bound tokens have about a thousand characters.
_LONGEST_TOKEN: Final = 16_384
#: For so long after a failed review, other requests with the same token are refused without another review.
_RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatorConfig:
    """Which callers are admitted. At least one kind of identity is configured."""

    certificate_prefix: str | None = None  #: of the CN, before the node's name. None: certificates are not used
    service_accounts: frozenset[str] = frozenset()  #: ServiceAccounts whose tokens are accepted, as "namespace/name"
    keep_seconds: float = 120.0  #: how long an accepted token is cached, as in the kubelet
    refuse_seconds: float = 10.0  #: how long a refused token is cached
    review_seconds: float = 3.0  #: for one review; agents give up on a request a few seconds later
    max_tokens: int = 16_384  #: tokens in the cache; a node has one agent, so one token
    max_reviews: int = 16  #: reviews at the same time


@dataclass(frozen=True, slots=True)
class _Kept:
    """The result of a review, valid until `ends_at`."""

    answer: Caller | PermitRefusal
    ends_at: Instant


class Authenticator:
    """Identifies the caller of a request, or says why the request is refused.

    `clock` measures how long reviews are cached; `unix_seconds` gives the date that a token's expiry is compared with.
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
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._under_review: dict[bytes, anyio.Event] = {}
        self._limiter = anyio.Semaphore(config.max_reviews)

    def at_once(self, headers: Headers, peer: str | None) -> Caller | PermitRefusal | None:
        """The caller, or a refusal, if no review is needed; otherwise None.

        `peer` is the name in the caller's certificate, None without one.
        """
        name, prefix = peer, self._config.certificate_prefix
        if name is not None and prefix is not None and len(name) > len(prefix) and name.startswith(prefix):
            return Caller(node=NodeName(name[len(prefix) :]), name=name)
        token = _bearer(headers) if self._reviewer is not None else None
        if token is not None:
            return self._known_token(token)
        if name is not None and prefix is not None:
            return _refused(403, "other_certificate", f"certificate of {name!r} names no node: want CN {prefix}<node>")
        wanted = [*(["a client certificate"] if prefix is not None else []), *(["a bearer token"] if self._reviewer else [])]
        return _refused(401, "unauthenticated", f"who are you? want {' or '.join(wanted)}")

    async def caller(self, headers: Headers, peer: str | None) -> Caller | PermitRefusal:
        """The caller or a refusal, after a review if one is needed."""
        known = self.at_once(headers, peer)
        if known is not None:
            return known
        token = _bearer(headers)
        assert token is not None
        assert self._reviewer is not None
        seconds = 2 * self._config.review_seconds
        with anyio.move_on_after(seconds):
            return await self._once(sha256(token).digest(), token, self._reviewer)
        return _refused(503, "not_reviewed", f"bearer token: not reviewed within {seconds:g} s")

    def _known_token(self, token: bytes) -> Caller | PermitRefusal | None:
        if len(token) > _LONGEST_TOKEN:
            return _refused(401, "bad_token", f"bearer token: {len(token)} bytes, want at most {_LONGEST_TOKEN}")
        kept = self._fresh(sha256(token).digest())
        return None if kept is None else kept.answer

    async def _once(self, digest: bytes, token: bytes, reviewer: TokenReviewer) -> Caller | PermitRefusal:
        """Reviews a token once, however many requests bring it at the same time."""
        while (kept := self._fresh(digest)) is None:
            if (going_on := self._under_review.get(digest)) is not None:
                await going_on.wait()
                continue
            self._under_review[digest] = anyio.Event()
            try:
                async with self._limiter:
                    answer, seconds = await self._reviewed(token, reviewer)
                if seconds <= 0:
                    return answer
                self._keep(digest, _Kept(answer, Instant(self._clock() + seconds)))
            finally:
                self._under_review.pop(digest).set()
        return kept.answer

    def _fresh(self, digest: bytes) -> _Kept | None:
        kept = self._kept.get(digest)
        if kept is None or kept.ends_at <= self._clock():
            return None
        self._kept.move_to_end(digest)
        return kept

    def _keep(self, digest: bytes, kept: _Kept) -> None:
        self._kept[digest] = kept
        self._kept.move_to_end(digest)
        if len(self._kept) > self._config.max_tokens:
            self._kept.popitem(last=False)

    async def _reviewed(self, token: bytes, reviewer: TokenReviewer) -> tuple[Caller | PermitRefusal, float]:
        """The result of a review, and for how many seconds it may be cached."""
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

    def _known(self, reviewed: Reviewed) -> Caller | PermitRefusal:
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
    """The expiry that a JWT states, in Unix seconds; infinity for anything else. The API server has reviewed
    the token before."""
    try:
        payload = token.split(b".")[1]
        return _claims.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4))).exp
    except (IndexError, binascii.Error, msgspec.DecodeError):
        return float("inf")
