# SPDX-License-Identifier: Apache-2.0
"""Distributed training as traffic: iterations of a model's bytes and a pause to compute (ACC's testbed, SIGCOMM 2021, section 5).

`size` is the model: AlexNet has about 61 M parameters, 244 MB in 32 bits; ResNet-50 25.6 M, 102 MB. All iterations are endless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dc_gym.base.key import TIME, key
from dc_gym.traffic import shared_keys
from dc_gym.traffic.flows import NO_GATE, FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, NS_PER_S, Gates, WorkloadContext, bounded, register, require

MOST_ITERATIONS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingKeys:
    """Keys of kinds parameter_server and ring_allreduce."""

    size_bytes: int = shared_keys.size()
    senders: int | None = shared_keys.senders("workers", "all that can be")
    rounds: int | None = shared_keys.rounds("iterations")
    compute_ns: int = key(TIME, 0, low=0, help="pause of a worker before its next iteration")


def parameter_server(context: WorkloadContext, keys: TrainingKeys) -> list[FlowRequest]:
    """Iterations of a training: `senders` workers push `size` to the last host and pull it back.

    When the last host has all pushes, each worker pulls `size`, computes for `compute`, and pushes again. Groups `push` and
    `pull`.
    """
    size, compute_ns = keys.size_bytes, keys.compute_ns
    *others, server = context.hosts
    workers, gates = _workers(keys, others), Gates()
    least_ns = 2 * size * len(workers) * 8 * NS_PER_S // context.rate_bps(server) + compute_ns + 1
    waits = dict.fromkeys(workers, NO_GATE)
    flows: list[FlowRequest] = []
    for iteration in range(_iterations(context, keys, least_ns)):
        barrier, spare = gates.new(), iteration > 0
        for worker in workers:
            push = FlowRequest(
                worker, server, DEFAULT_PORT, compute_ns if spare else 0, size_bytes=size, group="push", rep=iteration
            )
            flows.append(replace(push, gate=waits[worker], opens=(barrier,), spare=spare))
        for worker in workers:
            waits[worker] = gates.new()
            pull = FlowRequest(server, worker, DEFAULT_PORT, size_bytes=size, group="pull", rep=iteration)
            flows.append(replace(pull, gate=barrier, opens=(waits[worker],), spare=spare))
    return bounded(flows)


def ring_allreduce(context: WorkloadContext, keys: TrainingKeys) -> list[FlowRequest]:
    """Iterations of a training: `senders` workers in a ring pass on chunks of `size` / n, 2 (n - 1) times.

    A worker sends to its neighbour once it has received a chunk and sent its own of the step before (reduce-scatter and
    all-gather); then it computes for `compute`. Group `ring`.
    """
    size, compute_ns = keys.size_bytes, keys.compute_ns
    workers, gates = _workers(keys, context.hosts), Gates()
    count = len(workers)
    require(count >= 2, "senders", count, "is too few for a ring; give 2 workers or more")
    chunk, steps = -(-size // count), 2 * (count - 1)
    slowest = min(context.rate_bps(worker) for worker in workers)
    least_ns = steps * chunk * 8 * NS_PER_S // slowest + compute_ns + 1
    waits = [NO_GATE] * count
    flows: list[FlowRequest] = []
    for iteration in range(_iterations(context, keys, least_ns)):
        for step in range(steps):
            following = [gates.new() for _ in workers]
            pause_ns = compute_ns if iteration and not step else 0
            for position, worker in enumerate(workers):
                after = (position + 1) % count
                chunk_flow = FlowRequest(
                    worker, workers[after], DEFAULT_PORT, pause_ns, size_bytes=chunk, group="ring", rep=iteration
                )
                opens = (following[position], following[after])
                flows.append(replace(chunk_flow, gate=waits[position], opens=opens, spare=iteration > 0))
            waits = following
    return bounded(flows)


def _workers(keys: TrainingKeys, candidates: list[str]) -> list[str]:
    senders = len(candidates) if keys.senders is None else keys.senders
    require(1 <= senders <= len(candidates), "senders", senders, f"is not in 1..{len(candidates)}; that many hosts can work")
    return candidates[:senders]


def _iterations(context: WorkloadContext, keys: TrainingKeys, least_ns: int) -> int:
    """Returns how many fit into the run on idle links."""
    return min(MOST_ITERATIONS, keys.rounds or context.horizon_ns // least_ns + 1)


register("parameter_server", parameter_server, TrainingKeys)
register("ring_allreduce", ring_allreduce, TrainingKeys)
