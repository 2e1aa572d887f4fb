"""Tell the devices of a Spark cluster of each other.

An operation with the argument `spark.workers` on several devices is a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.device_catalogue import Device
from towpath.contracts.plan import Operation, Scalar
from towpath.gateways.cluster_share import devices_text
from towpath.gateways.kinds.spark import DEVICES, WORKERS
from towpath.plans.findings import Findings
from towpath.plans.order import listed


def with_cluster(
    operation: Operation, devices: Sequence[Device], position: int, findings: Findings
) -> dict[str, Scalar]:
    """Return the operation's arguments. Those of a cluster name its devices, the first one has the master.

    Devices without an address are recorded as an error, unless the plan itself names all.
    """
    arguments = operation.executes.arguments
    if WORKERS not in arguments or DEVICES in arguments or len(devices) < 2:
        return arguments
    if lacking := [device.id for device in devices if device.address is None]:
        findings.refuse(
            f"operations[{position}].executes.arguments.{WORKERS}",
            f"the devices form one cluster, and the catalogue has no address of {listed(lacking)}",
            arguments[WORKERS],
            "an `address` of each device",
        )
    members = [(device.id, device.address or "") for device in devices]
    return {**arguments, DEVICES: devices_text(members)}
