"""Cluster API's types as CustomResourceDefinitions: the fields that an autoscaler reads or writes, with their subresources."""

from typing import Any, Final

import aiohttp

from tests.support.waiting import eventually

Json = dict[str, Any]

GROUP: Final = "cluster.x-k8s.io"
_CRDS_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WITHIN_SECONDS: Final = 60.0

_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Final = {"type": "string"}
_SCALE: Final = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


_GROUP_SPEC: Final = _object(
    clusterName=_TEXT,
    replicas={"type": "integer", "default": 1},
    providerIDList={"type": "array", "items": _TEXT},
    template=_ANYTHING,
)
_MACHINE_SPEC: Final = _object(clusterName=_TEXT, providerID=_TEXT)


def _crd(plural: str, kind: str, spec: Json, subresources: Json) -> Json:
    schema = _object(spec=spec, status=_ANYTHING)
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **subresources},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


CRDS: Final = (
    _crd("machinedeployments", "MachineDeployment", _GROUP_SPEC, {"scale": _SCALE}),
    _crd("machinesets", "MachineSet", _GROUP_SPEC, {"scale": _SCALE}),
    _crd("machinepools", "MachinePool", _GROUP_SPEC, {"scale": _SCALE}),
    _crd("machines", "Machine", _MACHINE_SPEC, {}),
)


async def install(api: aiohttp.ClientSession) -> None:
    """Makes the types where they are not there; returns when all are served."""
    for crd in CRDS:
        async with api.post(_CRDS_PATH, json=crd) as answer:
            assert answer.status in {201, 409}, await answer.text()

    async def statuses() -> set[int]:
        seen = set()
        for crd in CRDS:
            async with api.get(f"/apis/{GROUP}/v1beta1/{crd['spec']['names']['plural']}") as answer:
                seen.add(answer.status)
        return seen

    await eventually(statuses, lambda seen: seen == {200}, within_seconds=_WITHIN_SECONDS, wanted="all types served")
