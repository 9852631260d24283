"""VirtualMachine and VirtualMachineMigration as CustomResourceDefinitions: the fields that a scheduler or an agent reads."""

from typing import Any, Final

import aiohttp

from tests.support.waiting import eventually

Json = dict[str, Any]

GROUP_PATH: Final = "/apis/vm.neon.tech/v1"
_CRDS_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WITHIN_SECONDS: Final = 60.0

_INTEGER_OR_TEXT: Final = {"x-kubernetes-int-or-string": True}
_WHOLE: Final = {"type": "integer"}
_TEXT: Final = {"type": "string"}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


_GUEST: Final = _object(
    cpus=_object(min=_INTEGER_OR_TEXT, max=_INTEGER_OR_TEXT, use=_INTEGER_OR_TEXT),
    memorySlots=_object(min=_WHOLE, max=_WHOLE, use=_WHOLE),
    memorySlotSize=_INTEGER_OR_TEXT,
)
_MACHINE: Final = _object(
    spec=_object(guest=_GUEST, schedulerName=_TEXT),
    status=_object(phase=_TEXT, podName=_TEXT, podIP=_TEXT, node=_TEXT),
)
_MIGRATION: Final = _object(
    spec=_object(
        vmName=_TEXT,
        preventMigrationToSameHost={"type": "boolean"},
        completionTimeout=_WHOLE,
        incremental={"type": "boolean"},
        allowPostCopy={"type": "boolean"},
        autoConverge={"type": "boolean"},
        maxBandwidth=_INTEGER_OR_TEXT,
    ),
    status=_object(phase=_TEXT, sourcePodName=_TEXT, targetPodName=_TEXT, sourceNode=_TEXT, targetNode=_TEXT),
)


def _crd(plural: str, singular: str, kind: str, schema: Json) -> Json:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.vm.neon.tech"},
        "spec": {
            "group": "vm.neon.tech",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind},
            "versions": [version],
        },
    }


CRDS: Final = (
    _crd("virtualmachines", "neonvm", "VirtualMachine", _MACHINE),
    _crd("virtualmachinemigrations", "neonvmm", "VirtualMachineMigration", _MIGRATION),
)


async def install(api: aiohttp.ClientSession) -> None:
    """Makes both types where they are not there; returns when they are served."""
    for crd in CRDS:
        async with api.post(_CRDS_PATH, json=crd) as answer:
            assert answer.status in {201, 409}, await answer.text()
    await _until_served(api, 200)


async def remove(api: aiohttp.ClientSession) -> None:
    """Removes both types with all their objects; returns when they are not served any more."""
    for crd in CRDS:
        async with api.delete(f"{_CRDS_PATH}/{crd['metadata']['name']}") as answer:
            assert answer.status in {200, 404}, await answer.text()
    await _until_served(api, 404)


async def _until_served(api: aiohttp.ClientSession, status: int) -> None:
    async def statuses() -> set[int]:
        seen = set()
        for crd in CRDS:
            async with api.get(f"{GROUP_PATH}/{crd['spec']['names']['plural']}") as answer:
                seen.add(answer.status)
        return seen

    await eventually(statuses, lambda seen: seen == {status}, within_seconds=_WITHIN_SECONDS, wanted=f"{status} for both")
