# SPDX-License-Identifier: Apache-2.0
"""An actuator as a plug-in: the limit of a switch port's queue, changed while the port works.

The queue is a bfifo. Its options are one number (struct tc_fifo_qopt), which is both how the limit is set and how the kernel
tells it. A smaller limit drops nothing that is queued.
"""

from dataclasses import dataclass

from dc_gym.base.key import SIZE, key
from dc_gym.base.units import FRAME_BYTES
from dc_gym.ctrl import actuators
from dc_gym.ctrl.actuators import Actuator, Attribute, Bounds, Place, Quantity
from dc_gym.topologies.graph import Graph, Port


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKeys:
    """Keys of actuator `limit`."""

    least_limit_bytes: int = key(SIZE, 10 * FRAME_BYTES, low=FRAME_BYTES, help="smallest limit that an agent sets")


def bounds(graph: Graph, port: Port, keys: LimitKeys) -> tuple[Bounds]:
    buffer_bytes = port.queue.limit_bytes
    return (Bounds(min(keys.least_limit_bytes, buffer_bytes), buffer_bytes, buffer_bytes),)


def attributes(graph: Graph, port: Port, keys: LimitKeys) -> tuple[Attribute]:
    return (Attribute(0, bytes(4), (Place("limit", 0, 4),)),)


def misses(port: Port) -> str:
    return "" if port.queue.kind == "bfifo" else f"its queue is {port.queue.kind}; give topology.marking = none"


actuators.register(
    Actuator(
        name="limit",
        help="limit of a switch port's queue, from `agent.least_limit` to its buffer",
        ports="switch",
        qdisc="bfifo",
        quantities=(Quantity("limit", "bytes", "frame bytes that the queue holds"),),
        bounds=bounds,
        attributes=attributes,
        misses=misses,
        keys=LimitKeys,
    )
)
