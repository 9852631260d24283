"""What pods ask for: containers of all sorts, overhead, requests of the pod as a whole, resizes in progress."""

from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.nodes import IMAGES

_CPU: Final = ("100m", "250m", "500m", "1", "0.1", "1500u", "0")
_MUCH_CPU: Final = ("1", "1500m", "2", "3", "7")
_MEMORY: Final = ("64Mi", "128Mi", "100M", "256000000", "1500500m", "0")
_MUCH_MEMORY: Final = ("1Gi", "2Gi", "2.5Gi", "5G", "7Gi")
_EXTENDED: Final = ("example.com/gpu", "example.com/fpga", "hugepages-2Mi")


def container(draw: Draw, name: str) -> Obj:
    """A container with an image and, mostly, resources."""
    made: Obj = {"name": name, "image": draw.pick((*IMAGES, "registry.test/middle:latest"))}
    if resources := _resources(draw):
        made["resources"] = resources
    return made


def containers(draw: Draw, spec: Obj) -> None:
    """Sets containers, initContainers (sidecars among them), overhead and resources of a pod's spec."""
    spec["containers"] = [container(draw, f"c{i}") for i in range(draw.pick((1, 1, 1, 2, 3)))]
    if draw.chance(0.05) or draw.about("resources", 0.4):
        spec["initContainers"] = [_init_container(draw, f"i{i}") for i in range(draw.number(1, 3))]
    if draw.chance(0.03) or draw.about("resources", 0.15):
        spec["overhead"] = {"cpu": draw.pick(_CPU), "memory": draw.pick(_MEMORY)}
    if draw.chance(0.02) or draw.about("resources", 0.2):
        _pod_level(draw, spec)


def _init_container(draw: Draw, name: str) -> Obj:
    made = container(draw, name)
    if draw.chance(0.5):
        made["restartPolicy"] = "Always"
    return made


def _resources(draw: Draw) -> Obj:
    if draw.chance(0.1):
        return {}
    much = draw.about("resources", 0.25)
    wants: Obj = {}
    if draw.chance(0.9):
        wants["cpu"] = draw.pick(_MUCH_CPU if much else _CPU)
    if draw.chance(0.9):
        wants["memory"] = draw.pick(_MUCH_MEMORY if much else _MEMORY)
    if draw.about("resources", 0.15):
        wants["ephemeral-storage"] = draw.pick(("100Mi", "2Gi", "15Gi"))
    # Limits alone become requests.
    made: Obj = {"limits": wants} if draw.chance(0.15) else {"requests": wants}
    if draw.about("resources", 0.15):
        resource = draw.pick(_EXTENDED)
        amount = draw.pick(("2Mi", "64Mi", "128Mi")) if resource.startswith("huge") else draw.pick(("0", "1", "2"))
        # Not to be overcommitted: limits equal requests. Huge pages need CPU or memory beside them.
        wants.setdefault("cpu", "100m")
        made["limits"] = {**made.get("limits", {}), resource: amount}
        made["requests"] = {**made.get("requests", {}), resource: amount}
    return made


def _pod_level(draw: Draw, spec: Obj) -> None:
    # The API server wants them to be no less than what the containers ask for together: these are more than any do.
    wants: Obj = {}
    for resource, amounts in (("cpu", ("40", "1500m", "2")), ("memory", ("3Gi", "40Gi", "2G"))):
        if draw.chance(0.7):
            wants[resource] = draw.pick(amounts)
    for made in (*spec["containers"], *spec.get("initContainers", ())):
        scale_down(made, wants)
    spec["resources"] = {draw.pick(("requests", "requests", "limits")): wants} if wants else {}


def scale_down(made: Obj, wants: Obj) -> None:
    """Makes a container ask for so little that six like it fit into what the pod asks for as a whole."""
    for amounts in made.get("resources", {}).values():
        for resource in wants:
            if resource in amounts:
                amounts[resource] = {"cpu": "100m", "memory": "64Mi"}[resource]
        # Rounded up for each container, yet summed exactly into the pod's default: the API server refuses its own default.
        if amounts.get("cpu") == "1500u":
            amounts["cpu"] = "2m"


def resize(draw: Draw, pod: Obj) -> None:
    """Gives a bound pod a status in which a resize has been asked for, is deferred or cannot be; now and then incomplete.

    The kubelet of 1.37 writes the amounts of the pod as a whole for every pod.
    """
    status = pod["status"]
    status["containerStatuses"] = [_allocated(draw, made) for made in pod["spec"]["containers"]]
    if draw.chance(0.15):
        status["containerStatuses"] = draw.some(status["containerStatuses"], 0, 1)
    if sidecars := [made for made in pod["spec"].get("initContainers", ()) if made.get("restartPolicy")]:
        status["initContainerStatuses"] = [_allocated(draw, made) for made in sidecars]
    if draw.chance(0.6):
        reason = draw.pick(("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": draw.pick(("True", "True", "False")), "reason": reason}]
    if draw.chance(0.7 if pod["spec"].get("resources") else 0.3):
        actual, allocated = ({"cpu": draw.pick(_MUCH_CPU), "memory": draw.pick(_MUCH_MEMORY)} for _ in range(2))
        if draw.chance(0.1):
            del actual["memory"]
        if draw.chance(0.1):
            del allocated[draw.pick(("cpu", "memory"))]
        status["resources"] = {"requests": actual}
        status["allocatedResources"] = allocated


def _allocated(draw: Draw, made: Obj) -> Obj:
    status: Obj = {"name": made["name"], "image": made["image"], "imageID": "", "ready": True, "restartCount": 0}
    if draw.chance(0.8):
        status["resources"] = {
            "requests": {"cpu": draw.pick((*_CPU, *_MUCH_CPU)), "memory": draw.pick((*_MEMORY, *_MUCH_MEMORY))}
        }
    if draw.chance(0.6):
        status["allocatedResources"] = {"cpu": draw.pick(_MUCH_CPU), "memory": draw.pick(_MUCH_MEMORY)}
    return status
