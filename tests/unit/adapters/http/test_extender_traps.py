"""Traps T1-T17 of the extender protocol, one test each (T6, T7, T10 and T13 also in tests/unit/app and tests/cluster)."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import anyio
import numpy as np
import pytest

from slackwater.controllers.placement.loop import FilterNodeChooser
from slackwater.model.columns import Rows
from slackwater.model.effects import Bind
from slackwater.model.events import BindEnded, PodGone
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.ports.protocols import Outcome
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.bodies import bind_args, filter_args, pod_json, whole_nodes_args
from tests.support.builders import a_node, a_pod, amounts
from tests.support.service import a_service, bound

pytestmark = pytest.mark.anyio

_POD = b'{"Pod": {"metadata": {"name": "p", "uid": "u", "namespace": "n"}}'


def metas(*pods: Pod) -> dict[str, Any]:
    return {"Pods": [{"UID": pod.uid} for pod in pods], "NumPDBViolations": 0}


@pytest.mark.parametrize(
    "case", [str, str.lower, str.upper, lambda name: name[0].lower() + name[1:]], ids=["go", "lower", "upper", "camel"]
)
async def test_t1_any_case_is_accepted_and_go_case_is_emitted(case: Callable[[str], str]) -> None:
    pod, victim = a_pod("p", priority=10, cpu="3"), a_pod("v", on="n", cpu="3")
    async with a_service() as service:
        service.has(a_node("n"), a_node("m"), victim)
        args = {
            "Pod": pod_json(pod),
            "NodeNameToMetaVictims": {"n": {case("Pods"): [{case("UID"): victim.uid}], case("NumPDBViolations"): 2}},
        }
        answer = await service.ask("preempt", {case(key): value for key, value in args.items()})
        assert answer == {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": victim.uid}], "NumPDBViolations": 2}}}
        small = a_pod("q")
        answer = await service.ask("filter", {case(key): value for key, value in filter_args(small, "m").items()})
        assert answer == {"Nodes": None, "NodeNames": ["m"], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}
        answer = await service.ask("prioritize", {case(key): value for key, value in filter_args(small, "m").items()})
        assert list(answer[0]) == ["Host", "Score"]
        assert await service.ask("bind", {case(key): value for key, value in bind_args(small, "m").items()}) == {"Error": ""}


class TheSecond(FilterNodeChooser):
    """Of those that pass, as the state machine has it: the position in the question."""

    def __init__(self, state_machine: StateMachine) -> None:  # no scoring loop, so nothing of `FilterNodeChooser`'s own
        self.state_machine = state_machine

    def of(self, pod: Pod, rows: Rows) -> int | None:
        passing = np.flatnonzero(self.state_machine.passing(pod, rows, Instant(0.0))).tolist()
        return passing[1] if len(passing) > 1 else None


async def test_where_a_node_was_chosen_the_answer_is_that_one_in_the_words_of_the_question() -> None:
    async with a_service(choice=TheSecond) as service:
        service.has(a_node("small", cpu="1"), a_node("n"), a_node("m"))
        pod = a_pod("p", cpu="2")
        want: dict[str, Any] = {
            "Nodes": None,
            "NodeNames": ["m"],
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        }
        assert await service.ask("filter", filter_args(pod, "small", "n", "m", "stranger")) == want
        whole = whole_nodes_args(pod, "small", "n", "m")
        answer = await service.ask("filter", whole)
        assert answer == want | {"Nodes": {"metadata": {}, "items": [whole["Nodes"]["items"][2]]}, "NodeNames": None}
        one = await service.ask("filter", filter_args(pod, "small", "n"))
        assert one["NodeNames"] == ["n"]
        assert list(one["FailedAndUnresolvableNodes"]) == ["small"], "nobody chose: who fails is named"


async def test_t2_the_answer_always_has_node_names_and_only_asked_ones() -> None:
    async with a_service() as service:
        service.has(a_node("small", cpu="1"), a_node("large"), a_node("not-asked"))
        answer = await service.ask("filter", filter_args(a_pod("p", cpu="2"), "small", "large", "stranger"))
        assert answer["NodeNames"] == ["large"]
        none = await service.ask("filter", filter_args(a_pod("q", cpu="2"), "small"))
        assert none["NodeNames"] == []


async def test_t3_what_we_refuse_is_a_200_with_the_reason() -> None:
    async with a_service() as service:
        service.has(a_node("n"))
        answer = await service.ask("bind", bind_args(a_pod("never-seen"), "n"))
        assert answer["Error"] == f"{Reason.POD_UNKNOWN.text} (pod default/never-seen, node n)"


async def test_t4_a_bind_is_answered_before_kube_scheduler_gives_up() -> None:
    async with a_service(config=replace(installed.DISPATCHER, bind_seconds=0.2)) as service:
        pod = a_pod("p")
        service.has(a_node("n"), pod)
        service.writer.open_gate = anyio.Event()
        with anyio.fail_after(60):
            answer = await service.ask("bind", bind_args(pod, "n"))
        assert answer["Error"].startswith(Reason.API_UNREACHABLE.text)
        assert service.reserved("n") == (500, 2**30), "the binding may have happened, so it counts"


async def test_t5_scores_stay_within_0_and_10_and_keep_the_order() -> None:
    async with a_service() as service:
        service.has(a_node("full", cpu="1"), a_node("best"), a_node("big", cpu="64", memory="256Gi"))
        service.has(a_pod("x", on="full", cpu="1"), a_pod("y", on="big", cpu="50", memory="200Gi"))
        answer = await service.ask("prioritize", filter_args(a_pod("p"), "full", "best", "big", "stranger"))
        scores = {item["Host"]: item["Score"] for item in answer}
        assert scores["full"] == scores["stranger"] == 0
        assert 1 <= scores["best"] < scores["big"] <= 10


async def test_t6_a_second_extender_after_us_still_gets_what_we_pass() -> None:
    async with a_service(replace(installed.POLICY, bind=True)) as service:
        service.has(a_node("a"), a_node("b"))
        first = await service.ask("filter", filter_args(a_pod("p"), "a", "b"))
        again = await service.ask("filter", filter_args(a_pod("p"), *first["NodeNames"]))
        assert again["NodeNames"] == ["a", "b"], "asked again for the same pod, the answer is the same"


async def test_t7_a_pod_bound_behind_our_back_is_counted() -> None:
    async with a_service() as service:
        service.has(a_node("n"), a_pod("p"))
        service.has(a_pod("p", on="n"))
        assert service.reserved("n") == (500, 2**30)
        assert service.state_machine.state.event_counts.adopted == 1


async def test_t8_a_repeated_bind_is_one_binding() -> None:
    async with a_service() as service:
        pod = a_pod("p")
        service.has(a_node("n"), pod)
        service.writer.open_gate = anyio.Event()
        answers: list[Any] = []

        async def bind() -> None:
            answers.append(await service.ask("bind", bind_args(pod, "n")))

        async with anyio.create_task_group() as group:
            group.start_soon(bind)
            group.start_soon(bind)
            await anyio.wait_all_tasks_blocked()
            service.writer.open_gate.set()
        assert await service.ask("bind", bind_args(pod, "n")) == {"Error": ""}
        service.has(a_pod("p", on="n"))
        assert await service.ask("bind", bind_args(pod, "n")) == {"Error": ""}
        assert answers == [{"Error": ""}] * 2
        assert len(service.writer.asked) == 1
        assert service.reserved("n") == (500, 2**30)


async def test_t9_preempt_answers_a_subset_adds_victims_and_names_none_that_is_not_there() -> None:
    low = a_pod("low", on="a", cpu="1", priority=1)
    async with a_service(replace(installed.POLICY, nodes=replace(installed.NODES, system=amounts("1", "0")))) as service:
        service.has(a_node("a"), a_node("b"), a_node("c"), low, a_pod("more", on="a", cpu="2", priority=2))
        other = a_pod("other", on="b", cpu="3", priority=1)
        service.has(other, a_pod("top", on="c", cpu="3", priority=100))
        args = {
            "Pod": pod_json(a_pod("p", cpu="3", priority=10)),
            "NodeNameToMetaVictims": {
                "a": metas(low),
                "b": metas(a_pod("elsewhere")),
                "c": metas(a_pod("top", on="c", cpu="1")),
                "unknown": metas(low),
            },
        }
        answer = await service.ask("preempt", args)
        kept = answer["NodeNameToMetaVictims"]
        assert kept["a"]["Pods"] == [{"UID": "uid-more"}, {"UID": "uid-low"}], "Total is 3 here: one is not enough"
        assert set(kept) == {"a", "c"}
        assert all(victims["Pods"] for victims in kept.values())


async def test_t10_accounting_comes_from_the_watch_not_from_being_asked() -> None:
    async with a_service() as service:
        service.has(a_node("n", cpu="1"), a_pod("unasked", on="n", cpu="1"))
        answer = await service.ask("filter", filter_args(a_pod("p"), "n"))
        assert answer["FailedNodes"] == {"n": Reason.NOT_ENOUGH_CPU.text}


async def test_t11_full_now_is_resolvable_and_too_large_is_not() -> None:
    async with a_service() as service:
        service.has(a_node("full"), a_node("small", cpu="1"), a_pod("x", on="full", cpu="4"))
        answer = await service.ask("filter", filter_args(a_pod("p", cpu="2"), "full", "small"))
        assert answer["FailedNodes"] == {"full": Reason.NOT_ENOUGH_CPU.text}
        assert answer["FailedAndUnresolvableNodes"] == {"small": Reason.CPU_ABOVE_TOTAL.text}


async def test_t12_a_sample_miss_is_counted_and_answered_by_a_nomination() -> None:
    from slackwater.model.effects import Activate, Nominate
    from slackwater.model.events import TimePassed

    async with a_service() as service:
        pod = a_pod("p")
        service.has(a_node("full", cpu="1"), a_node("free"), a_pod("x", on="full", cpu="1"), pod)
        answer = await service.ask("filter", filter_args(pod, "full"))
        assert answer["NodeNames"] == []
        assert service.state_machine.state.event_counts.sample_misses == 1
        service.now += 1.0
        service.take(TimePassed())
        await anyio.wait_all_tasks_blocked()
        assert service.writer.asked == [Nominate(pod.uid, pod.key, NodeName("free")), Activate(pod.uid, pod.key, "nominated")]
        assert (await service.ask("filter", filter_args(pod, "free")))["NodeNames"] == ["free"]


async def test_t13_transport_security_is_checked_where_the_scheduler_is_configured() -> None:
    from slackwater.app.scheduler_config.check import check
    from slackwater.app.scheduler_config.generate import generate
    from slackwater.app.settings import Settings

    text = generate(Settings(), kubeconfig=None, extender_url=None)
    insecure = text.replace("http://", "https://").replace("enableHTTPS: false", "enableHTTPS: true")
    assert not check(text, Settings())
    assert check(insecure, Settings())


@pytest.mark.parametrize("declared", [True, False], ids=["content-length", "chunked"])
async def test_t14_a_huge_body_is_answered_not_cut(declared: bool) -> None:
    async with a_service(max_body_bytes=10_000) as service:
        service.has(a_node("n"))
        body = b'{"Pod": "' + b"x" * 20_000 + b'"}'

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 1000):
                yield body[start : start + 1000]

        answer = await service.http.post("/scheduler/filter", content=body if declared else chunks())
        assert answer.status_code == 413
        assert answer.json() == {"Error": "body: more than 10000 bytes"}


async def test_t15_five_thousand_names_and_five_thousand_whole_nodes() -> None:
    names = [f"node-{i}.example.internal" for i in range(5000)]
    pod = a_pod("p", cpu="3")
    async with a_service(replace(installed.POLICY, bind=True), max_body_bytes=1 << 26) as service:
        service.has(*[a_node(name, cpu="2" if i % 2 else "4") for i, name in enumerate(names)])
        by_name = await service.ask("filter", filter_args(pod, *names))
        whole = await service.ask("filter", whole_nodes_args(pod, *names))
        assert by_name["NodeNames"] == [node["metadata"]["name"] for node in whole["Nodes"]["items"]] == names[::2]
        assert whole["NodeNames"] is None
        assert whole["Nodes"]["items"][0]["status"] == {"allocatable": {"cpu": "4"}}, "nodes come back as they were sent"
        assert set(by_name["FailedAndUnresolvableNodes"]) == set(names[1::2])


async def test_t16_the_newer_of_the_schedulers_and_the_watchs_pod_counts() -> None:
    async with a_service() as service:
        service.has(a_node("n"), a_pod("p", cpu="3", version=20))
        stale = await service.ask("filter", filter_args(a_pod("p", cpu="9", version=10), "n"))
        assert stale["NodeNames"] == ["n"]
        newer = await service.ask("filter", filter_args(a_pod("p", cpu="9", version=30), "n"))
        assert newer["NodeNames"] == []


async def test_t17_every_node_that_does_not_pass_is_named() -> None:
    async with a_service() as service:
        service.has(a_node("full"), a_node("free"), a_pod("x", on="full", cpu="4"))
        answer = await service.ask("filter", filter_args(a_pod("p"), "full", "free", "unknown"))
        assert set(answer["FailedNodes"]) == {"full", "unknown"}
        missing = await service.ask("filter", filter_args(a_pod("q", missing_request="app: memory"), "full", "free"))
        assert missing["FailedAndUnresolvableNodes"] == dict.fromkeys(
            ["full", "free"], "Slackwater: container app: memory has no request"
        )


async def test_a_denied_bind_is_remembered_until_room_appears() -> None:
    async with a_service(replace(installed.POLICY, bind=True)) as service:
        pod, other = a_pod("p", cpu="3"), a_pod("other", on="n", cpu="2")
        service.has(a_node("n"), a_node("m"), pod)
        await service.ask("filter", filter_args(pod, "n", "m"))
        service.has(other)
        answer = await service.ask("bind", bind_args(pod, "n"))
        assert answer["Error"].startswith(Reason.NOT_ENOUGH_CPU.text)
        assert service.writer.asked == []
        assert (await service.ask("filter", filter_args(pod, "n", "m")))["NodeNames"] == ["m"]
        service.take(PodGone(other.uid, other.key))
        assert (await service.ask("filter", filter_args(pod, "n", "m")))["NodeNames"] == ["n", "m"]


async def test_a_binding_that_the_api_server_refuses_is_remembered_by_time() -> None:
    async with a_service(replace(installed.POLICY, bind=True)) as service:
        pod = a_pod("p")
        service.has(a_node("n"), a_node("m"), pod)
        service.writer.script = [
            Outcome("refused", 403, "webhook", event=BindEnded(pod.uid, NodeName("n"), "refused", "webhook"))
        ]
        answer = await service.ask("bind", bind_args(pod, "n"))
        assert answer["Error"] == f"{Reason.API_REFUSED.text}: webhook (pod default/p, node n)"
        assert service.reserved("n") == (0, 0)
        assert (await service.ask("filter", filter_args(pod, "n", "m")))["FailedNodes"] == {"n": Reason.BIND_DENIED.text}
        service.now += 61.0
        assert (await service.ask("filter", filter_args(pod, "n", "m")))["NodeNames"] == ["n", "m"]


async def test_room_between_the_only_choice_and_its_bind_is_held() -> None:
    async with a_service() as service:
        first, second = a_pod("first", cpu="3"), a_pod("second", cpu="3")
        service.has(a_node("n"), first, second)
        assert (await service.ask("filter", filter_args(first, "n")))["NodeNames"] == ["n"]
        assert (await service.ask("filter", filter_args(second, "n")))["FailedNodes"] == {"n": Reason.HELD_FOR_OTHERS.text}
        assert await service.ask("bind", bind_args(first, "n")) == {"Error": ""}


async def test_where_our_total_is_smaller_two_pods_never_meet_in_the_gap() -> None:
    """With system amounts kube-scheduler believes in more room than there is. Where we bind, bind decides: a pod that comes too
    late is refused, and other nodes are named for it next."""
    policy = replace(installed.POLICY, nodes=replace(installed.NODES, system=amounts("1", "0")), bind=True)
    async with a_service(policy) as service:
        first, second = a_pod("first", cpu="2"), a_pod("second", cpu="2")
        service.has(a_node("a"), a_node("b"), a_node("c", cpu="5"), first, second)
        assert (await service.ask("filter", filter_args(first, "a", "b")))["NodeNames"] == ["a", "b"]
        assert (await service.ask("filter", filter_args(second, "a", "b", "c")))["NodeNames"] == ["a", "b", "c"]
        assert await service.ask("bind", bind_args(first, "b")) == {"Error": ""}
        refused = await service.ask("bind", bind_args(second, "b"))
        assert refused["Error"].startswith(Reason.NOT_ENOUGH_CPU.text)
        assert (await service.ask("filter", filter_args(second, "a", "b", "c")))["NodeNames"] == ["a", "c"]


@pytest.mark.parametrize(
    ("method", "path", "body", "want_status", "want_error"),
    [
        ("POST", "/scheduler/filter", b"{", 400, "body: "),
        ("POST", "/scheduler/filter", b"[]", 400, "body: "),
        ("POST", "/scheduler/filter", b"{}", 400, "Pod: missing"),
        ("POST", "/scheduler/filter", b"\xff", 400, "body: "),
        ("POST", "/scheduler/filter", b'{"Pod": {"metadata": {"name": "p"}}}', 400, "NodeNames and Nodes"),
        ("POST", "/scheduler/filter", b'{"Pod": {"metadata": {"name": ""}}, "NodeNames": []}', 400, "Pod.metadata.name"),
        ("POST", "/scheduler/filter", _POD + b', "NodeNames": [1]}', 400, "NodeNames"),
        ("POST", "/scheduler/prioritize", b"nonsense", 400, "body: "),
        ("POST", "/scheduler/bind", b'{"PodName": "p"}', 400, "PodNamespace: missing"),
        ("POST", "/scheduler/preempt", b"{}", 400, "Pod: missing"),
        ("POST", "/scheduler/preempt", b"[" * 100_000, 400, "body: "),
        ("GET", "/scheduler/filter", b"", 405, "GET /scheduler/filter: want POST"),
        ("POST", "/scheduler/unbind", b"{}", 404, "/scheduler/unbind: want one of"),
        ("POST", "/", b"{}", 404, "/: want one of"),
    ],
)  # fmt: skip
async def test_bad_input_gets_a_clear_error_is_counted_and_changes_nothing(
    method: str, path: str, body: bytes, want_status: int, want_error: str
) -> None:
    async with a_service() as service:
        service.has(a_node("n"))
        generation = service.state_machine.generation
        answer = await service.http.request(method, path, content=body)
        assert answer.status_code == want_status
        assert answer.json()["Error"].startswith(want_error)
        assert service.state_machine.generation == generation
        verb = path.removeprefix("/scheduler/") if want_status != 404 else "other"
        labels = {"verb": verb, "code": str(want_status)}
        assert service.registry.get_sample_value("slackwater_extender_requests_total", labels) == 1


async def test_until_everything_is_listed_questions_are_answered_503() -> None:
    async with a_service() as service:
        service.ready, service.unlisted = False, ["pods"]
        answer = await service.http.post("/scheduler/filter", json=filter_args(a_pod("p"), "n"))
        assert answer.status_code == 503
        assert answer.json() == {"Error": "not ready: waiting for the first list of pods"}


async def test_a_bind_whose_answer_was_lost_is_retried_and_counted_once() -> None:
    async with a_service() as service:
        pod = a_pod("p")
        service.has(a_node("n"), pod)
        service.writer.script = [
            Outcome("unknown", 0, "reset"),
            Outcome("again", 503, "busy"),
            bound(Bind(pod.uid, pod.key, NodeName("n"))),
        ]
        assert await service.ask("bind", bind_args(pod, "n")) == {"Error": ""}
        assert len(service.writer.asked) == 3
        assert service.reserved("n") == (500, 2**30)
