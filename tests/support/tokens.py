"""Tokens as agents send them, and what an API server says of them."""

import base64
import json
from typing import Any

from tests.support.fakeapi import Reply

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
AGENT = "system:serviceaccount:kube-system:autoscaler-agent"


def a_token(*, exp: Any = None, note: str = "") -> str:
    """A JWT in form: nobody here checks its signature."""
    claims = {"note": note, **({} if exp is None else {"exp": exp})}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


def reviewed(user: str = AGENT, node: str | None = "n", **status: Any) -> Reply:
    """The API server's word that a token is `user`'s, of a Pod on `node`."""
    extra = {"authentication.kubernetes.io/pod-name": ["agent-x"]}
    if node is not None:
        extra["authentication.kubernetes.io/node-name"] = [node]
    whole = {"authenticated": True, "user": {"username": user, "uid": "u", "groups": [], "extra": extra}, **status}
    return Reply(status=201, body={"kind": "TokenReview", "status": whole})


def not_reviewed() -> Reply:
    return Reply(status=201, body={"kind": "TokenReview", "status": {"user": {}, "error": "invalid bearer token"}})
