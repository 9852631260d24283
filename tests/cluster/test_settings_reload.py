"""The configuration file is watched: what is good takes effect, what is bad is told and changes nothing."""

import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.requests_formula import Asked
from tests.cluster.support.same_state import amounts, same_state
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GI = 1024**3
WITHIN_SECONDS = 60.0


async def test_a_changed_file_takes_effect_without_a_restart(stage: Stage, ground: Ground) -> None:
    (node,) = await ground.make_nodes(1, cpu="10", memory="10Gi")
    service = await stage.up()
    pid = service.pid

    async def total_and_watermark() -> tuple[Asked, Asked]:
        dump = await service.dumpstate()
        return amounts(dump, "total")[node], amounts(dump, "watermark")[node]

    assert await total_and_watermark() == (Asked(10_000, 10 * GI), Asked(9_000, 9 * GI))

    service.write_config({"nodes": {"watermark": {"cpu": 0.5, "memory": 0.75}, "system": {"cpu": "2", "memory": "2Gi"}}})
    want = (Asked(8_000, 8 * GI), Asked(4_000, 6 * GI))
    await eventually(total_and_watermark, lambda got: got == want, within_seconds=WITHIN_SECONDS, wanted=f"{want}")

    # kube-scheduler still sees 10 CPUs: it is our new Total that decides.
    await ground.make_pods(a_pod(f"p-{number}", cpu="4500m", memory="1Gi") for number in range(2))
    await eventually(ground.pending, lambda pending: len(pending) == 1, within_seconds=60, wanted="one of two pods bound")
    await ground.until_refused((await ground.pending())[0])
    assert (await service.statusz())["settingsProblem"] is None
    assert service.pid == pid
    await same_state(service, ground)


@pytest.mark.parametrize(
    ("bad", "want"),
    [
        ({"nodes": {"watermark": {"cpu": 1.5}}}, "nodes.watermark.cpu"),
        ({"nodes": {"watermarks": {"cpu": 0.5}}}, "nodes.watermarks"),
        ("nodes: [", "syntax error"),
    ],
    ids=["value-out-of-range", "unknown-key", "no-yaml"],
)
async def test_a_bad_file_is_refused_and_reported_and_the_old_settings_stay(
    stage: Stage, ground: Ground, bad: dict[str, object] | str, want: str
) -> None:
    (node,) = await ground.make_nodes(1, cpu="10")
    service = await stage.up_service({"nodes": {"watermark": {"cpu": 0.6}}})
    in_force = (await service.statusz())["settings"]

    if isinstance(bad, str):
        service.config.write_text(bad)
    else:
        service.write_config(bad)
    reported = await eventually(
        service.statusz, lambda status: bool(status["settingsProblem"]), within_seconds=WITHIN_SECONDS, wanted="a problem"
    )

    assert want in reported["settingsProblem"]
    assert reported["settings"] == in_force
    assert amounts(await service.dumpstate(), "watermark")[node].cpu == 6_000

    service.write_config({"nodes": {"watermark": {"cpu": 0.7}}})
    healed = await eventually(
        service.statusz, lambda status: status["settingsProblem"] is None, within_seconds=WITHIN_SECONDS, wanted="no problem"
    )
    assert healed["settings"]["nodes"]["watermark"]["cpu"] == 0.7
    assert amounts(await service.dumpstate(), "watermark")[node].cpu == 7_000
