"""The `vertical` section of the configuration file: workloads that grow in place."""

from typing import Literal

from pydantic import Field

from slackwater.configuration.values import Count, Section, SomeCpu, SomeMemory
from slackwater_protocol.units import Bytes, MilliCpu


class ComputeUnit(Section):
    """The smallest step of a vertical workload: agents request whole multiples of it."""

    cpu: SomeCpu = Field(default=MilliCpu(250), alias="vCPUs", examples=["250m"])
    """Quantity of CPU of one unit. 250m by default, as in Neon's agents."""
    memory: SomeMemory = Field(default=Bytes(1 << 30), alias="mem", examples=["1Gi"])
    """Quantity of memory of one unit. 1Gi by default, as in Neon's agents."""


class Vertical(Section):
    """Workloads that grow in place."""

    missing_requests: Literal["reject", "zero"] = Field(default="reject", examples=["reject", "zero"])
    """What happens to a pod that is not bound yet and has a container without a CPU or memory request: `reject` it with a
    reason, or count the request as `zero`. reject by default: what is not declared cannot be accounted for."""
    compute_unit: ComputeUnit = ComputeUnit()
    """The smallest step."""
    max_step_units: Count = Field(default=0, examples=[0, 8])
    """Compute units by which one permit may grow a workload. 0 by default: no limit."""
