# SPDX-License-Identifier: Apache-2.0
"""Actuator `marking`: Kmin, Kmax and Pmax of the ECN marking of a switch port or of one of its classes, changed while the port
works.

The port marks by the queue itself: a packet that finds q bytes with probability Pmax (q - Kmin) / (Kmax - Kmin) between the two,
and always from Kmax on (DCQCN, SIGCOMM 2015, section 3.1). Equal thresholds are DCTCP's step.

The qdisc is `port`, which takes the change as it is. Where queues are stock it is RED: a change carries limit 0, with which
sch_red.c keeps the queue below RED and the frames in it, and the kernel then describes RED with limit 0. RED's average begins
anew, which is no change here, because its weight is 1.
"""

from __future__ import annotations

import struct
from typing import Any

from dc_gym.base.units import PPM
from dc_gym.ctrl.actuators.actuator import Actuator, Attribute, Bounds, Place, Quantity, register
from dc_gym.topologies.graph import Graph, Marking, Port
from dc_gym.topologies.realize import tc

LOWEST_PPM = PPM // 100
"""The lowest Pmax that an agent sets; ACC's templates (SIGCOMM 2021, section 3.3) begin there, too."""

PLACES = (Place("kmin", 0, 4), Place("kmax", 4, 4), Place("pmax", 8, 4, multiplier=1 << 32, divisor=PPM))
"""The places of the values in the marking of a `port`, and in the marking of a class."""


def _bounds(graph: Graph, port: Port, keys: Any) -> tuple[Bounds, ...]:
    marks, limit_bytes = port.queue.marking, port.queue.limit_bytes
    low, high, ppm = (marks.k_bytes, marks.k_bytes, PPM) if marks.kind == "step" else (
        marks.min_bytes, marks.max_bytes, marks.probability_ppm,
    )  # fmt: skip
    limit_bytes = max(limit_bytes, high)
    least = min(graph.frame_bytes, low)
    return Bounds(least, limit_bytes, low), Bounds(least, limit_bytes, high), Bounds(min(LOWEST_PPM, ppm), PPM, ppm)


def _attributes(graph: Graph, port: Port, keys: Any) -> tuple[Attribute, ...]:
    return _attributes_of_red() if port.queue.kind == "red" else _attributes_of_port(port)


def _attributes_of_port(port: Port) -> tuple[Attribute, ...]:
    return (Attribute(tc.TCA_PORT_MARKING, _payload(port.queue.marking), PLACES),)


def _attributes_of_class(graph: Graph, port: Port, number: int, keys: Any) -> tuple[Attribute, ...]:
    nest = tc.TCA_PORT_CLASS
    return (
        Attribute(tc.CLASS_NUMBER, struct.pack("=I", number), nest=nest, index=number),
        Attribute(tc.CLASS_MARKING, _payload(port.queue.classes[number].marking), PLACES, nest, number),
    )


def _payload(marking: Marking) -> bytes:
    """Returns a marking without its values."""
    return tc.PORT_MARKING.pack(0, 0, 0, tc.PORT_MARKS_AT[marking.at])


def _attributes_of_red() -> tuple[Attribute, ...]:
    flags = tc.RED_ECN | tc.RED_NODROP | tc.RED_INDEPENDENT
    limit_bytes = 0  # keeps the queue
    parms = tc.RED_PARMS.pack(limit_bytes, 0, 0, 0, 0, 0, 0)
    return (
        Attribute(tc.TCA_RED_PARMS, parms, (Place("kmin", 4, 4), Place("kmax", 8, 4))),
        Attribute(tc.TCA_RED_STAB, tc.NO_AVERAGE),
        Attribute(tc.TCA_RED_MAX_P, bytes(4), (Place("pmax", 0, 4, multiplier=1 << 32, divisor=PPM),)),
        Attribute(tc.TCA_RED_FLAGS, struct.pack("=II", flags, flags)),
    )


def _misses(port: Port) -> str:
    kind = port.queue.marking.kind
    if kind in ("step", "red-instant"):
        return ""
    if kind == "none":
        return 'its queue marks nothing; give a topology.marking such as "step"'
    return f'its marking is "{kind}", on an average of the queue; give a topology.marking such as "step"'


register(
    Actuator(
        name="marking",
        help="ECN marking of a switch port, or of its classes: thresholds and the largest probability",
        ports="switch",
        qdiscs=("port", "red"),
        quantities=(
            Quantity("kmin", "bytes", "queue length at which marking starts, from a full frame to the buffer"),
            Quantity("kmax", "bytes", "queue length from which every packet is marked, from kmin to the buffer", at_least="kmin"),
            Quantity("pmax", "ppm", "marking probability just below kmax, from 1 % to 100 %"),
        ),
        bounds=_bounds,
        attributes=_attributes,
        misses=_misses,
        of_class=_attributes_of_class,
        grounds=("lab",),
    )
)
