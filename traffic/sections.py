# SPDX-License-Identifier: Apache-2.0
"""A phase of a workload: the keys of `[workload]` that hold from a time on (docs/events.md).

Flows are planned in advance, so a phase is, too: its kind makes flows as for a run that lasts as long as the phase, and they are
shifted to its begin. A flow without a size ends with its phase; one with a size may outlast it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dc_gym.base.errors import WorkloadError
from dc_gym.base.units import format_time
from dc_gym.topologies.ecmp import draw
from dc_gym.traffic.flows import NO_GATE, FlowRequest
from dc_gym.traffic.workload_spec import WorkloadSpec


@dataclass(frozen=True, slots=True)
class Section:
    """The workload from a time after t0 on."""

    at_ns: int
    workload: WorkloadSpec

    def seed(self, seed: int, number: int) -> int:
        """Returns the seed of phase `number` in a run of that seed. The first phase has the run's own."""
        return draw(seed, "phase", number) if number else seed

    def check(self, flows: Iterable[FlowRequest], last: bool) -> None:
        """Raises WorkloadError if flows of an earlier phase than the last wait for others: they might start after its end."""
        if not last and any(flow.gate != NO_GATE for flow in flows):
            why = f"workload.kind {self.workload.kind!r}: its flows wait for one another, so the workload cannot change after it"
            raise WorkloadError(f"{why} (phase from {format_time(self.at_ns)} on); choose a kind such as poisson")

    def shifted(self, flow: FlowRequest) -> FlowRequest:
        """Returns a flow of the phase by the time of the run."""
        if not self.at_ns:
            return flow
        start_ns = flow.start_ns + (self.at_ns if flow.gate == NO_GATE else 0)
        return replace(flow, start_ns=start_ns, stop_ns=flow.stop_ns + self.at_ns if flow.stop_ns else 0)
