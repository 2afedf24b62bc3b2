# SPDX-License-Identifier: Apache-2.0
"""MPI_Alltoall as traffic: the messages of Open MPI's coll/tuned, which wait for one another and never poll.

Every process has `size` bytes for each other one. The algorithms (SCHEDULES) come from Open MPI's coll/base; each message is a
flow. With "linear" the farthest peer's message comes first. Open MPI's "linear_sync" limits how many are under way, by default to
all of them (coll_tuned_alltoall_max_requests = 0).

A process begins its next step when it has sent and received the step before. An iteration begins when the one before has ended
everywhere: the barrier that the OSU benchmark has between two of them (osu_alltoall), without the barrier's own messages.
`schedule = "auto"` chooses by processes and bytes as Open MPI 4.1 does (ompi_coll_tuned_alltoall_intra_dec_fixed).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dc_gym.base.key import COUNT, SIZE, TEXT, key
from dc_gym.traffic import shared_keys
from dc_gym.traffic.flows import MOST_FLOWS, NO_GATE, FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, Gates, WorkloadContext, register, require

SCHEDULES: Mapping[str, str] = {
    "auto": "what Open MPI 4.1 chooses for so many processes and bytes (`ompi_coll_tuned_alltoall_intra_dec_fixed`)",
    "linear": "all messages at once; Open MPI's `linear_sync` is the same with its default of no limit on messages under way",
    "pairwise": "n - 1 steps: in step s a process sends to the one s after it and receives from the one s before it; it continues"
    " when it has done both",
    "bruck": "log2 n steps, of up to n / 2 blocks each; small messages are forwarded",
}
"""The schedules, and the messages of each."""
Message = tuple[int, int, int]
"""From, to, and how many blocks of `size`."""

_ALWAYS = 2**62
DECISIONS: tuple[tuple[int, tuple[tuple[int, str], ...]], ...] = (
    (3, ((_ALWAYS, "pairwise"),)),
    (8, ((524_288, "linear"), (1_048_576, "pairwise"), (_ALWAYS, "linear"))),
    (16, ((_ALWAYS, "linear"),)),
    (32, ((4, "linear"), (512, "bruck"), (_ALWAYS, "linear"))),
    (64, ((512, "bruck"), (_ALWAYS, "linear"))),
    (256, ((1024, "bruck"), (262_144, "linear"), (_ALWAYS, "pairwise"))),
    (512, ((1024, "bruck"), (32_768, "linear"), (_ALWAYS, "pairwise"))),
    (1024, ((512, "bruck"), (262_144, "linear"), (_ALWAYS, "pairwise"))),
    (2048, ((512, "bruck"), (_ALWAYS, "linear"))),
    (4096, ((1024, "bruck"), (_ALWAYS, "linear"))),
    (_ALWAYS, ((2048, "bruck"), (_ALWAYS, "linear"))),
)
"""Open MPI 4.1's choice: below so many processes, below so many bytes. Two processes exchange, whatever it is called there."""


def decide(processes: int, size_bytes: int) -> str:
    """The schedule that Open MPI takes."""
    by_size = next(rows for below, rows in DECISIONS if processes < below)
    return next(schedule for below, schedule in by_size if size_bytes < below)


def steps(schedule: str, processes: int) -> list[list[Message]]:
    """Returns the messages of each step. A process begins its next step when its own messages have arrived."""
    ranks = range(processes)
    if schedule == "linear":
        return [[(rank, (rank - back) % processes, 1) for back in range(1, processes) for rank in ranks]]
    if schedule == "pairwise":
        return [[(rank, (rank + ahead) % processes, 1) for rank in ranks] for ahead in range(1, processes)]
    powers = [1 << bit for bit in range((processes - 1).bit_length())]
    blocks = [sum(1 for block in range(processes) if block & power) for power in powers]
    return [[(rank, (rank + power) % processes, count) for rank in ranks] for power, count in zip(powers, blocks, strict=True)]


def sizes(first_bytes: int, largest_bytes: int | None) -> list[int]:
    """The first, doubled as long as it is no more than the largest."""
    sizes_bytes = [first_bytes]
    while largest_bytes is not None and 2 * sizes_bytes[-1] <= largest_bytes:
        sizes_bytes.append(2 * sizes_bytes[-1])
    return sizes_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AlltoallKeys:
    """Keys of kind alltoall."""

    size_bytes: int = shared_keys.size()
    largest_bytes: int | None = key(
        SIZE,
        low=1,
        otherwise="`size`",
        help="largest message size; sizes double from `size` up to it, each for `rounds` iterations",
    )
    senders: int | None = shared_keys.senders("processes, one per host", "all hosts")
    rounds: int = key(COUNT, 1, low=1, help="iterations for each size")
    interval_ns: int = shared_keys.interval("time from the end of an iteration to the next")
    schedule: str = key(
        TEXT,
        "auto",
        names=lambda: SCHEDULES,
        help="`linear`, `pairwise`, `bruck`, or what Open MPI chooses (`auto`)",
    )


def alltoall(context: WorkloadContext, keys: AlltoallKeys) -> list[FlowRequest]:
    """The collective MPI_Alltoall, one process per host, by Open MPI's schedules.

    `rounds` iterations with messages of `size`, then of twice that, up to `largest`; `interval` after each barrier.
    """
    size, largest = keys.size_bytes, keys.largest_bytes
    count = len(context.hosts) if keys.senders is None else keys.senders
    require(2 <= count <= len(context.hosts), "senders", count, f"is not in 2..{len(context.hosts)}; one process a host")
    require(largest is None or largest >= size, "largest", largest, f"is below workload.size {size}; give more")
    chosen = dict[int, str]()
    gates, gate, flows = Gates(), NO_GATE, list[FlowRequest]()
    for iteration, size_bytes in enumerate(size for size in sizes(size, largest) for _ in range(keys.rounds)):
        chosen[size_bytes] = decide(count, size_bytes) if keys.schedule == "auto" else keys.schedule
        over = gates.new()
        rest_ns = keys.interval_ns if iteration else 0
        base = FlowRequest(
            context.hosts[0], context.hosts[1], DEFAULT_PORT, rest_ns, size_bytes=size_bytes, rep=iteration, gate=gate
        )
        flows += _iteration(context.hosts, steps(chosen[size_bytes], count), base, gates, over)
        require(len(flows) <= MOST_FLOWS, "rounds", keys.rounds, f"makes more than {MOST_FLOWS} flows; give fewer")
        gate = over
    context.notes["schedules"] = {str(size_bytes): schedule for size_bytes, schedule in chosen.items()}
    return flows


def _iteration(
    hosts: list[str], planned: list[list[Message]], base: FlowRequest, gates: Gates, over: int
) -> Iterator[FlowRequest]:
    """The messages of one call. The first step starts as `base` does; the last opens the gate `over`."""
    waits, rest_ns = [base.gate] * len(hosts), base.start_ns
    for number, step in enumerate(planned):
        last = number == len(planned) - 1
        following = [NO_GATE if last else gates.new() for _ in hosts]
        for rank, peer, blocks in step:
            message = replace(base, src=hosts[rank], dst=hosts[peer], size_bytes=blocks * base.size_bytes)
            opens = (over,) if last else (following[rank], following[peer])
            yield replace(message, start_ns=rest_ns, gate=waits[rank], opens=opens)
        waits, rest_ns = following, 0


register("alltoall", alltoall, AlltoallKeys)
