# SPDX-License-Identifier: Apache-2.0
"""An actuator as a plug-in: the limit of a switch port's queue, changed while the port works.

The queue is the lab's own qdisc, `port`. One attribute of its options is the limit, which is both how it is set and how the
kernel tells it. A smaller limit drops nothing that is queued.
"""

from dataclasses import dataclass

from dc_gym.base.key import SIZE, key
from dc_gym.base.units import FRAME_BYTES
from dc_gym.ctrl import actuators
from dc_gym.ctrl.actuators import Actuator, Attribute, Bounds, Place, Quantity
from dc_gym.topologies.graph import Graph, Port
from dc_gym.topologies.realize import tc


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKeys:
    """Keys of actuator `limit`."""

    least_limit_bytes: int = key(SIZE, 10 * FRAME_BYTES, low=FRAME_BYTES, help="smallest limit that an agent sets")


def bounds(graph: Graph, port: Port, keys: LimitKeys) -> tuple[Bounds]:
    buffer_bytes = port.queue.limit_bytes
    return (Bounds(min(keys.least_limit_bytes, buffer_bytes), buffer_bytes, buffer_bytes),)


def attributes(graph: Graph, port: Port, keys: LimitKeys) -> tuple[Attribute]:
    return (Attribute(tc.TCA_PORT_LIMIT, bytes(4), (Place("limit", 0, 4),)),)


def misses(port: Port) -> str:
    return "" if port.queue.kind == "port" else f'its queue is {port.queue.kind}; give topology.qdisc = "port"'


actuators.register(
    Actuator(
        name="limit",
        help="limit of a switch port's queue, from `agent.least_limit` to its buffer",
        ports="switch",
        qdiscs=("port",),
        quantities=(Quantity("limit", "bytes", "frame bytes that the queue holds"),),
        bounds=bounds,
        attributes=attributes,
        misses=misses,
        keys=LimitKeys,
    )
)
