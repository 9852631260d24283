"""Names found on bytes, all at once, are those that a JSON decoder and a dict find one by one."""

import json
from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from hypothesis.strategies import DataObject

from slackwater.adapters.http.extender_messages import placing_args
from slackwater.adapters.http.node_names import RequestNodesDecoder
from slackwater.cluster.nodes import NO_ROW, NameIndex, NodeTable, Spans
from slackwater.model.columns import Codes, Int64
from slackwater.model.ids import NodeName
from slackwater.model.ledger import Ledger
from slackwater.model.reasons import Reason
from tests.support import installed
from tests.support.builders import a_node

#: Close to one another, of lengths around that of a word, and now and then what no node can be called.
node_names = st.one_of(
    st.from_regex(r"(ip-|node-)?[01]{1,4}(\.eu-west\.compute\.internal)?", fullmatch=True),
    st.text(st.sampled_from("ab01-."), min_size=1, max_size=20),
)
any_names = st.one_of(
    node_names,
    st.text(st.characters(max_codepoint=0xD7FF), max_size=4),
    st.sampled_from(['"', ",", '","', "\\", '":"', "é", "ab\x00"]),
)
Write = Callable[[list[str]], str]
ways_to_write: st.SearchStrategy[Write] = st.sampled_from(
    (
        lambda names: json.dumps(names, separators=(",", ":")),
        json.dumps,
        lambda names: json.dumps(names, ensure_ascii=False, indent=1),
        lambda names: "[" + ",".join('"' + "".join(f"\\u{ord(c):04x}" for c in name) + '"' for name in names) + "]",
    )
)
texts = [reason.text for reason in Reason]


def a_table(names: list[str]) -> NodeTable:
    table = NodeTable(Ledger(), installed.NODES)
    for name in names:
        table.put(a_node(name))
    return table


@given(st.dictionaries(st.binary(min_size=0, max_size=30), st.integers(0, 99)), st.lists(st.binary(max_size=30)), st.data())
def test_what_the_index_is_sure_of_is_what_a_dict_says(known: dict[bytes, int], others: list[bytes], data: DataObject) -> None:
    asked = data.draw(st.permutations([*known, *others]))
    lengths = np.array([len(name) for name in asked], np.int64)
    rows, unsure = NameIndex(known).rows(Spans(b"".join(asked), np.cumsum(lengths) - lengths, lengths))

    doubtful = set(unsure.tolist())
    for position, name in enumerate(asked):
        if position not in doubtful:
            assert rows[position] == known[name]


@given(st.lists(node_names, unique=True, max_size=12), st.lists(any_names, max_size=6), ways_to_write, st.data())
def test_an_answer_names_the_nodes_that_a_decoder_finds(
    known: list[str], others: list[str], write: Write, data: DataObject
) -> None:
    table = a_table(known)
    there = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    names = data.draw(st.permutations(list(dict.fromkeys([*there, *others]))))
    body = f'{{"Pod":{{"metadata":{{"name":"p"}}}},"Nodes":null,"NodeNames":{write(names)}}}'.encode()

    asked = RequestNodesDecoder(table, few_bytes=data.draw(st.sampled_from((0, 8_000)))).of(placing_args(body))
    assert asked.rows.tolist() == [table.row_of.get(NodeName(name), NO_ROW) for name in names]

    codes: Codes = np.array(data.draw(st.lists(st.sampled_from(Reason), min_size=len(names), max_size=len(names))), np.uint8)
    answer = json.loads(asked.filtered(codes, texts))
    by_name = dict(zip(names, map(Reason, codes.tolist()), strict=True))
    assert answer["NodeNames"] == [name for name in names if by_name[name] is Reason.OK]
    assert answer["FailedNodes"] | answer["FailedAndUnresolvableNodes"] == {
        name: texts[reason] for name, reason in by_name.items() if reason is not Reason.OK
    }

    for at in range(len(names)):
        assert json.loads(asked.only(at))["NodeNames"] == names[at : at + 1]
    scores: Int64 = np.array(data.draw(st.lists(st.integers(0, 10), min_size=len(names), max_size=len(names))), np.int64)
    want_scores = [{"Host": name, "Score": score} for name, score in zip(names, scores.tolist(), strict=True)]
    assert json.loads(asked.prioritized(scores)) == want_scores


@given(
    st.lists(st.sampled_from(("a", "b", "c")), max_size=6),
    st.lists(st.lists(st.sampled_from(("a", "b", "c")), unique=True, max_size=3), min_size=1, max_size=6),
    st.sampled_from((0, 8_000)),
)
def test_names_that_were_asked_before_have_the_rows_of_now(
    nodes: list[str], questions: list[list[str]], few_bytes: int
) -> None:
    table = a_table([])
    decoder = RequestNodesDecoder(table, few_bytes=few_bytes)
    for at, names in enumerate([*questions, *questions]):
        if at < len(nodes):  # each node comes, goes, and perhaps comes again on another row
            changed = NodeName(nodes[at])
            _ = table.drop(changed) if changed in table.row_of else table.put(a_node(changed))
        body = f'{{"Pod":{{"metadata":{{"name":"p"}}}},"Nodes":null,"NodeNames":{json.dumps(names)}}}'.encode()
        assert decoder.of(placing_args(body)).rows.tolist() == [table.row_of.get(NodeName(name), NO_ROW) for name in names]


def test_of_many_lists_only_the_latest_are_kept() -> None:
    decoder = RequestNodesDecoder(a_table(["a"]))
    bodies = [b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","n%d"]}' % number for number in range(300)]
    first, *_, last = [decoder.of(placing_args(body)) for body in bodies]
    assert decoder.of(placing_args(bodies[-1])) is last
    assert decoder.of(placing_args(bodies[0])) is not first
