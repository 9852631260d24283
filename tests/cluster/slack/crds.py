"""CapacityBuffer as a CustomResourceDefinition: the fields that an autoscaler reads or writes, and its status subresource."""

from typing import Any, Final

import aiohttp

from tests.support.waiting import eventually

Json = dict[str, Any]

GROUP: Final = "autoscaling.x-k8s.io"
PLURAL: Final = "capacitybuffers"
_CRDS_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_QUANTITY: Final = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


_SPEC: Final = _object(
    provisioningStrategy={**_TEXT, "default": "buffer.x-k8s.io/active-capacity"},
    podTemplateRef=_object(name=_TEXT),
    scalableRef=_object(apiGroup=_TEXT, kind=_TEXT, name=_TEXT),
    replicas=_COUNT,
    percentage=_COUNT,
    limits={"type": "object", "additionalProperties": _QUANTITY},
)
_CONDITION: Final = {
    **_object(type=_TEXT, status=_TEXT, reason=_TEXT, message=_TEXT, lastTransitionTime={**_TEXT, "format": "date-time"}),
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
}
_STATUS: Final = _object(
    podTemplateRef=_object(name=_TEXT),
    podTemplateGeneration={"type": "integer"},
    replicas=_COUNT,
    provisioningStrategy=_TEXT,
    conditions={"type": "array", "items": _CONDITION},
)
_CRD: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "capacitybuffer", "kind": "CapacityBuffer"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _object(spec=_SPEC, status=_STATUS)},
                "subresources": {"status": {}},
            }
        ],
    },
}


async def install(api: aiohttp.ClientSession) -> None:
    """Makes the type; returns when it is served."""
    async with api.post(_CRDS_PATH, json=_CRD) as answer:
        assert answer.status in {201, 409}, await answer.text()

    async def status() -> int:
        async with api.get(f"/apis/{GROUP}/v1beta1/{PLURAL}") as answer:
            return answer.status

    await eventually(status, lambda seen: seen == 200, within_seconds=60, wanted="the type served")


def a_buffer(name: str, **spec: Any) -> Json:
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": name}, "spec": spec}
