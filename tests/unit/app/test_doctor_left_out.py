"""What `slackwater doctor` says of groups that are left out because something of them cannot be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.app.test_doctor import LAST, STATUS, Prepared, _list, found, some_settings

pytestmark = pytest.mark.anyio


async def test_groups_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """Those that the service noted in its last loop, NodePools that are odd now, and types in the file of instance types."""
    file = tmp_path / "types.json"
    offering: Any = {"Requirements": []}
    types = [
        {"name": name, "resources": {"cpu": "1", "memory": amount}, "offerings": [offering]} for name, amount in ("a1", "b?")
    ]
    file.write_text(json.dumps(types))
    settings = some_settings(f"autoscaler: {{enabled: true, providers: {{karpenter: {{instanceTypes: {file}}}}}}}")
    pools = "/apis/karpenter.sh/v1/nodepools"
    odd = {"metadata": {"name": "general"}, "spec": {"limits": {"cpu": "much"}}}
    noted = {"slackwater": {"notes": ["left out: Auto Scaling group x: it weighs", "another note"]}}
    ours = STATUS.replace("cluster-", "slackwater-")
    fresh, stale = "2026-11-24 06:29:00.5 +0000 UTC", "2026-11-23 06:28:00.5 +0000 UTC"

    def api(written: str, *items: Any, **how: Any) -> Prepared:
        status = {"metadata": {"annotations": {LAST: written}}, "data": {"status": json.dumps(noted)}}
        return Prepared({pools: _list(*items), ours: status}, **how)

    check = (await found(api(fresh, odd), settings))["groups left out"]
    assert (check.state, check.seen) == (
        "warning",
        f"{file}: $[1] (b): {check.seen.partition('(b): ')[2].partition(',')[0]}, Auto Scaling group x: it weighs, "
        "NodePool general: limits: cpu: " + check.seen.rpartition("limits: cpu: ")[2],
    )
    assert "much" in check.seen
    file.write_text(json.dumps(types[:1]))
    assert (await found(api(stale), settings))["groups left out"].seen == "none"
    hidden = (await found(api(fresh, forbidden=pools.__eq__), settings))["groups left out"]
    assert hidden.state == "unknown"
