"""Simulates an API server as its clients see it: answers requests, and yields the lines of watches.

A request consists of method, path, parameters and body. It is carried out immediately; callers simulate delays. There are no
connections and no authorization.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import count
from random import Random
from typing import Any, Final

import anyio
import msgspec

from slackwater.adapters.api_calls import MERGE_PATCH, Response
from slackwater.model.kubernetes_rules import DEFAULT_VERSION
from slackwater.sandbox.embedded.admission import Admission, rfc3339
from slackwater.sandbox.embedded.faults import Fault, Json, bad_request, exists, no_such_path
from slackwater.sandbox.embedded.kinds import PODS, Match, Target, matching, target_of
from slackwater.sandbox.embedded.patches import patched, updated
from slackwater.sandbox.embedded.pods import PodActions, check_preconditions
from slackwater.sandbox.embedded.store import Change, Store, StoredObject

#: How many paged lists are kept for requests for their further pages.
_OPEN_LISTS: Final = 64
_BOOKMARK_SECONDS: Final = 60.0


#: The answer to `GET /version`: the version of Kubernetes whose rules Slackwater follows by default.
_VERSION: Final = msgspec.json.encode({"major": "1", "gitVersion": f"v{DEFAULT_VERSION}"})


class ApiServer:
    """The embedded API server; `store` has its objects. `wall` returns the Unix time in seconds. `rng` makes UIDs and names."""

    def __init__(self, *, rng: Random, wall: Callable[[], float]) -> None:
        self.store = Store()
        self._admission = Admission(rng, wall)
        self._pods = PodActions(self.store, wall)
        self._wall = wall
        self._lists: OrderedDict[str, tuple[int, list[StoredObject]]] = OrderedDict()
        self._list_numbers = count(1)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Response:
        """Carries out a request and returns the answer. A refused request is also answered; nothing is raised for it."""
        if (method, path) == ("GET", "/version"):
            return Response(200, _VERSION)
        try:
            target = target_of(path)
            code, found = self._carry_out(method, target, params or {}, body, content_type)
        except Fault as fault:
            return fault.answer()
        return Response(code, found if isinstance(found, bytes) else msgspec.json.encode(found))

    def merge(self, path: str, patch: Json) -> None:
        """Applies a merge patch to the object or its subresource; nothing happens if it is refused."""
        self.request("PATCH", path, body=msgspec.json.encode(patch), content_type=MERGE_PATCH)

    def _carry_out(
        self, method: str, target: Target, params: Mapping[str, str], body: bytes | None, content_type: str
    ) -> tuple[int, Json | bytes]:
        key = (target.namespace, target.name)
        match method:
            case "GET" if target.name:
                return 200, self.store.get(target.kind, key).raw
            case "GET":
                return 200, self._list(target, params)
            case "POST":
                return self._post(target, _decoded(body))
            case "PUT":
                wanted = _decoded(body)
                return 200, self._store_update(target, self.store.get(target.kind, key).body, wanted).raw
            case "PATCH":
                before = self.store.get(target.kind, key).body
                wanted = patched(before, body or b"", content_type, custom=target.kind.custom)
                return 200, self._store_update(target, before, wanted).raw
            case "DELETE" if target.name:
                return 200, self._delete(target, _decoded(body) if body else {}, params)
        raise Fault(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    # --- reading ----------------------------------------------------------------------------------------------------------

    def _list(self, target: Target, params: Mapping[str, str]) -> bytes:
        token = params.get("continue", "")
        if token:
            number, _, start = token.partition("/")
            if number not in self._lists:
                raise Fault(410, "Expired", "The provided continue parameter is too old to display a consistent list result.")
        else:
            number, start = str(next(self._list_numbers)), "0"
            self._lists[number] = (self.store.revision, self._selected(target, params))
            while len(self._lists) > _OPEN_LISTS:
                self._lists.popitem(last=False)
        revision, items = self._lists[number]
        first, limit = int(start), int(params.get("limit") or 0) or len(items)
        rest = len(items) - first - limit
        meta: Json = {"resourceVersion": str(revision)}
        if rest > 0:
            meta.update({"continue": f"{number}/{first + limit}", "remainingItemCount": rest})
        else:
            self._lists.pop(number, None)
        head = {"kind": f"{target.kind.kind}List", "apiVersion": target.kind.api_version, "metadata": meta}
        page = [msgspec.Raw(stored.raw) for stored in items[first : first + limit]]
        return msgspec.json.encode({**head, "items": page})

    def _selected(self, target: Target, params: Mapping[str, str]) -> list[StoredObject]:
        match = _match(params)
        found = self.store.all(target.kind, target.namespace)
        return found if match is None else [stored for stored in found if match(stored.body)]

    def forget_lists(self) -> None:
        """Forgets all paged lists, as after a compaction: requests for further pages are then answered with 410."""
        self._lists.clear()

    async def watch(self, path: str, *, params: Mapping[str, str]) -> AsyncGenerator[list[bytes], None]:
        """Yields the lines of a watch; each list contains all lines that are due. The first list is empty: the watch is
        accepted.

        Ends after the parameter `timeoutSeconds`. Raises `Fault` if the server refuses the watch. Iterate within
        `contextlib.aclosing`.
        """
        target = target_of(path)
        match = _match(params)
        ends_at = anyio.current_time() + float(params.get("timeoutSeconds") or 1800)
        bookmarks = params.get("allowWatchBookmarks") in {"1", "true"}
        since = int(params.get("resourceVersion") or 0)
        yield []
        if since == 0:
            since = self.store.revision
            yield [_line("ADDED", stored.raw) for stored in self._selected(target, params)]
        while True:
            woken = self.store.next_change(target.kind)
            try:
                changes, upto = self.store.since(target.kind, since), self.store.revision
            except Fault as fault:
                yield [_line("ERROR", msgspec.json.encode(fault.status()))]
                return
            if lines := [line for change in changes if (line := _watch_line(change, target, match)) is not None]:
                yield lines
            since = upto
            left = ends_at - anyio.current_time()
            with anyio.move_on_after(min(max(left, 0.0), _BOOKMARK_SECONDS)) as scope:
                await woken.wait()
            if scope.cancelled_caught and bookmarks:
                # It says that the watch has received all changes up to this version.
                meta = {"resourceVersion": str(since), "creationTimestamp": None}
                head = {"kind": target.kind.kind, "apiVersion": target.kind.api_version, "metadata": meta}
                yield [_line("BOOKMARK", msgspec.json.encode(head))]
            if anyio.current_time() >= ends_at:
                return

    # --- writing ----------------------------------------------------------------------------------------------------------

    def _post(self, target: Target, body: Json) -> tuple[int, Json | bytes]:
        key = (target.namespace, target.name)
        match target.subresource:
            case "" if not target.name:
                return 201, self._create(target, body).raw
            case "binding" if target.kind is PODS:
                self._pods.bind(key, body)
                return 201, _success(201)
            case "eviction" if target.kind is PODS:
                self._pods.evict(key, body)
                return 201, _success(201)
        raise no_such_path()

    def _create(self, target: Target, body: Json) -> StoredObject:
        if target.kind.namespaced and not target.namespace:
            raise no_such_path()
        made = self._admission.new(target.kind, target.namespace, body)
        key = (target.namespace, made["metadata"]["name"])
        if self.store.find(target.kind, key) is not None:
            raise exists(target.kind.full_name, key[1])
        return self.store.put(target.kind, key, made)

    def _store_update(self, target: Target, before: Json, wanted: Json) -> StoredObject:
        key = (target.namespace, target.name)
        after = updated(target, before, wanted)
        if after == before:  # nothing changes: no new version, and no event for watches
            return self.store.get(target.kind, key)
        stored = self.store.put(target.kind, key, after)
        meta = stored.body["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds"):
            return self.store.remove(target.kind, key)
        return stored

    def _delete(self, target: Target, options: Json, params: Mapping[str, str]) -> Json | bytes:
        key = (target.namespace, target.name)
        if "gracePeriodSeconds" in params:
            options = {"gracePeriodSeconds": int(params["gracePeriodSeconds"]), **options}
        if target.kind is PODS:
            return self._pods.delete(key, options).raw
        stored = self.store.get(target.kind, key)
        meta = stored.body["metadata"]
        check_preconditions(target.kind.full_name, target.name, options.get("preconditions") or {}, meta)
        if meta.get("finalizers"):
            ending = {"deletionTimestamp": rfc3339(self._wall()), "deletionGracePeriodSeconds": 0}
            return self.store.put(target.kind, key, {**stored.body, "metadata": {**meta, **ending}}).raw
        self.store.remove(target.kind, key)
        details = {"name": target.name, "kind": target.kind.plural, "uid": meta["uid"]}
        return {**_success(200), "details": details}


def _decoded(body: bytes | None) -> Json:
    try:
        found: Any = msgspec.json.decode(body or b"")
    except msgspec.DecodeError as error:
        raise bad_request(f"the body cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise bad_request("the body is no object")
    return found


def _match(params: Mapping[str, str]) -> Match | None:
    return matching(labels=params.get("labelSelector", ""), fields=params.get("fieldSelector", ""))


def _watch_line(change: Change, target: Target, match: Match | None) -> bytes | None:
    """Encodes a change as a line of a watch. None if the object is outside the watch's namespace or name, or matched the
    watch's selectors neither before nor after the change."""
    if target.namespace and change.key[0] != target.namespace:
        return None
    if target.name and change.key[1] != target.name:
        return None
    if match is None:
        return _line(change.type, change.now.raw)
    was = change.before is not None and match(change.before.body)
    is_ = change.type != "DELETED" and match(change.now.body)
    if not was and not is_:
        return None
    return _line("MODIFIED" if was and is_ else "ADDED" if is_ else "DELETED", change.now.raw)


def _line(type_: str, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}' % (type_.encode(), raw)


def _success(code: int) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
