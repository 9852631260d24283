"""Laws of the extender wire: writing is undone by reading, whatever the keys' case and whatever else is there."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import BaseModel

from slackwater_protocol.extender import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    HostPriorityList,
    MetaPod,
    MetaVictims,
    Victims,
)

Draw = Callable[[SearchStrategy[list[bool]]], list[bool]]


def made(model: Callable[..., Any], **fields: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.fixed_dictionaries(fields).map(lambda drawn: model(**drawn))


words = st.text(max_size=6)
int64s = st.integers(-(2**63), 2**63 - 1)
pods = st.dictionaries(words, st.none() | st.booleans() | int64s | words | st.lists(words, max_size=2), max_size=3)
reasons = st.dictionaries(words, words, max_size=3)
victims = made(Victims, pods=st.lists(pods, max_size=2), num_pdb_violations=int64s)
meta_pods = made(MetaPod, uid=words)
meta_victims = made(MetaVictims, pods=st.lists(meta_pods, max_size=3), num_pdb_violations=int64s)
by_uid = st.dictionaries(words, meta_victims, max_size=3)

bodies = st.one_of(
    made(ExtenderArgs, pod=pods, nodes=st.none() | pods, node_names=st.none() | st.lists(words, max_size=3)),
    made(
        ExtenderFilterResult,
        nodes=st.none() | pods,
        node_names=st.none() | st.lists(words, max_size=3),
        failed_nodes=reasons,
        failed_and_unresolvable_nodes=reasons,
        error=words,
    ),
    st.lists(made(HostPriority, host=words, score=int64s), max_size=3).map(HostPriorityList),
    made(ExtenderBindingArgs, pod_name=words, pod_namespace=words, pod_uid=words, node=words),
    made(
        ExtenderPreemptionArgs,
        pod=pods,
        node_name_to_victims=st.dictionaries(words, victims, max_size=2),
        node_name_to_meta_victims=by_uid,
    ),
    made(ExtenderPreemptionResult, node_name_to_meta_victims=by_uid),
)


def respelled(value: Any, draw: Draw) -> Any:
    """The wire form of a model with every key of a Go field in another case, and an unknown key beside them."""
    if isinstance(value, HostPriorityList):
        return [respelled(item, draw) for item in value.root]
    if isinstance(value, BaseModel):
        wire = value.model_dump(mode="json")
        named = zip(wire, (getattr(value, name) for name in type(value).model_fields), strict=True)
        upper = draw(st.lists(st.booleans(), min_size=len(wire), max_size=len(wire)))
        keys = (key.upper() if up else key.lower() for key, up in zip(wire, upper, strict=True))
        return {"Unknown": 1} | {key: respelled(held, draw) for key, (_, held) in zip(keys, named, strict=True)}
    if isinstance(value, dict):
        return {key: respelled(held, draw) for key, held in value.items()}
    if isinstance(value, list):
        return [respelled(held, draw) for held in value]
    return value


@given(body=bodies)
def test_what_is_written_reads_back_as_the_same(body: BaseModel) -> None:
    assert type(body).model_validate_json(body.model_dump_json()) == body


@given(body=bodies, data=st.data())
def test_case_and_unknown_keys_make_no_difference(body: BaseModel, data: st.DataObject) -> None:
    assert type(body).model_validate_json(json.dumps(respelled(body, data.draw))) == body
