"""The judge of migrations in tests/cluster: what it lets pass, and what it does not."""

from typing import Any

from tests.cluster.neonvm.moves import RESOURCES, Look, Wish, without_need

Json = dict[str, Any]


def counted(cpu: int, *, pressure: int = 0, leaving: bool = False) -> Json:
    """A pod on `n`; its memory is no matter."""
    numbers = {"reserved": cpu, "buffer": 0, "capacityPressure": pressure, "accountedFor": cpu + pressure if leaving else 0}
    return {"name": "", "node": "n", "cpu": numbers, "memory": dict.fromkeys(numbers, 0)}


def a_look(at: float, *, process: int = 1, written: dict[str, int] | None = None, **pods: Json) -> Look:
    """Of a node with a watermark of 8 CPUs."""
    named = {uid: {**pod, "name": uid} for uid, pod in pods.items()}
    leaving = [uid for uid, pod in named.items() if pod["cpu"]["accountedFor"]]
    return Look(
        process=process,
        begun_at=at,
        ended_at=at + 0.1,
        nodes={"n": {resource: {"watermark": 8000} for resource in RESOURCES}},
        pods=named,
        migrations={f"of-{uid}": {"machine": uid, "pod": uid, "source": "n"} for uid in leaving},
        written={
            uid: {part: {"cpu": cpu, "memory": 0} for part in ("permit", "limit")} for uid, cpu in (written or {}).items()
        },
    )


def test_pressure_that_both_looks_show_is_a_reason() -> None:
    looks = [a_look(1, a=counted(5000), b=counted(4000)), a_look(2, a=counted(5000, leaving=True), b=counted(4000))]
    assert list(without_need(looks, [])) == []


def test_pressure_that_only_a_request_shows_is_a_reason() -> None:
    """`b` grew and shrank between the looks."""
    looks = [a_look(1, a=counted(4000), b=counted(3000)), a_look(2, a=counted(4000, leaving=True), b=counted(3000))]
    asked = {"cpu": 5000, "memory": 0}
    assert list(without_need(looks, [Wish(pod="b", asked=asked, begun_at=1.5, ended_at=1.6)])) == []
    (fault,) = without_need(looks, [Wish(pod="b", asked=asked, begun_at=0.5, ended_at=0.9)])
    assert fault.startswith("a left n without need")


def test_a_second_machine_that_leaves_for_the_same_pressure_is_a_fault() -> None:
    """9 CPUs, where 8 may be: one of the two leaves, not both."""
    before = a_look(1, a=counted(3000), b=counted(3000), c=counted(3000))
    both = a_look(2, a=counted(3000, leaving=True), b=counted(3000, leaving=True), c=counted(3000))
    assert len(list(without_need([before, both], []))) == 1
    one = a_look(2, a=counted(3000, leaving=True), b=counted(3000), c=counted(3000))
    (fault,) = without_need([before, one, both], [])
    assert fault.startswith("b left n without need")


def test_growth_that_was_denied_beside_a_migration_is_its_own_reason() -> None:
    before = a_look(1, a=counted(3000, leaving=True), b=counted(5000), c=counted(2000))
    after = a_look(2, a=counted(3000, leaving=True), b=counted(5000, pressure=1500, leaving=True), c=counted(2000))
    assert list(without_need([before, after], [])) == []


def test_a_new_process_begins_with_what_is_on_record() -> None:
    looks = [
        a_look(1, a=counted(4000), b=counted(3000), written={"b": 6000}),
        a_look(5, process=2, a=counted(4000, leaving=True), b=counted(3000)),
    ]
    assert list(without_need(looks, [])) == []
