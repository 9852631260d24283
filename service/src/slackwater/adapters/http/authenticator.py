"""Who may ask for which node's pods: client certificates, and bound ServiceAccount tokens reviewed by the API server.

A caller is bound to one node and may speak for its pods alone (the permit service compares). Answers of reviews are kept for a
while, within a bound, and never beyond the token's own expiry. Deliberately absent: trust in anything that a token says by
itself; its expiry is read only to forget it sooner.
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
#: A longer one is refused unread: bound tokens have about a thousand characters.
_LONGEST_TOKEN: Final = 16_384
#: After a review that brought no answer: others with the same token need not run into the same wall.
_RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatorConfig:
    """Whom to let in. With neither kind configured there is no gate at all, so at least one is."""

    certificate_prefix: str | None = None  #: of the CN; what follows is the node. None: certificates tell nothing
    service_accounts: frozenset[str] = frozenset()  #: "namespace/name" each; whose tokens count
    keep_seconds: float = 120.0  #: a known token; the kubelet keeps its own reviews as long
    refuse_seconds: float = 10.0  #: an unknown one
    review_seconds: float = 3.0  #: for one review; agents give a request up after a few more
    max_tokens: int = 16_384  #: kept; a node has one agent, so one token
    max_reviews: int = 16  #: under way


@dataclass(frozen=True, slots=True)
class _Kept:
    """A review's answer until `ends_at`."""

    answer: Caller | PermitRefusal
    ends_at: Instant


class Authenticator:
    """Tells the caller of a request, or why it is turned away.

    `clock` measures how long answers are kept, `unix_seconds` reads the date that a token's expiry is compared with.
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
        """Who calls, as far as that is known without asking anybody; None where a token has to be reviewed.

        `peer` is the name of the caller's certificate, None without one.
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
        """Who calls, with a review if need be."""
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
        """One review for a token, however many requests bring it at the same time."""
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
        """The answer, and for how many seconds it may be kept."""
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
    """Unix seconds at which a JWT says that it ends; infinity for what is none. The API server has judged it before."""
    try:
        payload = token.split(b".")[1]
        return _claims.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4))).exp
    except (IndexError, binascii.Error, msgspec.DecodeError):
        return float("inf")
