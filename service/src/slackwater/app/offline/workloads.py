"""What the controllers of a file ask for besides their pods: room for pods to come, as the service reads it."""

from collections.abc import Mapping, Sequence

from slackwater.adapters.kube.auxiliary import decode_job, decode_replicas, decode_workload
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.headroom_requests import decode_buffer, decode_quota
from slackwater.app.offline.objects import BUFFER, JOB, POD_TEMPLATE, QUOTA, FoundObject
from slackwater.model.auxiliary import WORKLOAD_KINDS
from slackwater.model.eviction_facts import Owner
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.placeholders import HeadroomRequests, Workload
from slackwater_protocol.names import SLACK


def headroom_of(
    by_kind: Mapping[str, Sequence[FoundObject]], decoder: PodDecoder, kubernetes: KubernetesVersion
) -> HeadroomRequests:
    """The CapacityBuffers, PodTemplates and ResourceQuotas, with the controllers that buffers refer to, and the controllers
    with the slack annotation. Raises `ClusterError`."""
    buffers = [item.decoded(decode_buffer) for item in by_kind[BUFFER]]
    scaled = {(each.key.namespace, each.scalable) for each in buffers}
    workloads = [
        workload_of(item, (group, kind), decoder, kubernetes)
        for group, kind in WORKLOAD_KINDS
        for item in by_kind[kind]
        if (item.namespace, Owner(group, kind, item.name)) in scaled or SLACK.encode() in bytes(item.raw)
    ]
    return HeadroomRequests(
        buffers=tuple(buffers),
        workloads={key: each for each in workloads if (key := (each.namespace, each.ref)) in scaled},
        templates={
            (item.namespace, item.name): workload_of(item, ("", POD_TEMPLATE), decoder, kubernetes)
            for item in by_kind[POD_TEMPLATE]
        },
        marked=tuple(each for each in workloads if each.slack),
        quotas=tuple(item.decoded(decode_quota) for item in by_kind[QUOTA]),
    )


def workload_of(item: FoundObject, ref: tuple[str, str], decoder: PodDecoder, kubernetes: KubernetesVersion) -> Workload:
    """The controller or PodTemplate with a pod that it would create. Raises `ClusterError`."""

    def decode(raw: bytes) -> Workload:
        replicas = 0 if item.kind == POD_TEMPLATE else (decode_job if item.kind == JOB else decode_replicas)(raw).replicas
        return decode_workload(decoder, ref, raw, replicas=replicas)

    return item.decoded(decode, kubernetes, templated=True)
