# SPDX-License-Identifier: Apache-2.0
"""Storage traffic: the mixes of ACC's table 1 (SIGCOMM 2021), reads from storage to compute and writes the other way.

Each compute host keeps `outstanding` operations under way (fio's IO depth), each with a random storage host. Block sizes are
powers of two, all of a range equally likely: the paper gives the range and no distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dc_gym.base.key import COUNT, TEXT, key
from dc_gym.traffic import shared_keys
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, Gates, WorkloadContext, bounded, chained, register, require

KIB, MIB = 2**10, 2**20


@dataclass(frozen=True, slots=True)
class StorageMix:
    """A mix of reads and writes: `reads` of ten operations are reads; blocks have `least_bytes` to `most_bytes`."""

    reads: int
    least_bytes: int
    most_bytes: int

    def sizes(self) -> list[int]:
        """Powers of two in the range."""
        return [1 << bits for bits in range(self.least_bytes.bit_length() - 1, self.most_bytes.bit_length())]


MIXES = {
    "oltp": StorageMix(5, 512, 64 * KIB),
    "olap": StorageMix(5, 256 * KIB, 4 * MIB),
    "vdi": StorageMix(2, KIB, 64 * KIB),
    "exchange": StorageMix(6, 32 * KIB, 512 * KIB),
    "video": StorageMix(2, 64 * KIB, 64 * KIB),
    "backup": StorageMix(4, 16 * KIB, 64 * KIB),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageKeys:
    """Keys of kind storage."""

    mix: str = key(TEXT, needed=True, names=lambda: MIXES, help="one of [ACC's mixes](workloads.md#training-and-storage)")
    storage: int | None = key(COUNT, low=1, otherwise="a quarter", help="number of storage hosts")
    outstanding: int = shared_keys.outstanding("operations that a host keeps under way")
    replicas: int = key(COUNT, 0, low=0, help="copies of each write on other storage hosts")
    rounds: int | None = shared_keys.rounds("operations that follow one another in each of the `outstanding` places")


def storage(context: WorkloadContext, keys: StorageKeys) -> list[FlowRequest]:
    """Reads and writes of storage (ACC's table 1): each compute host keeps `outstanding` of them under way.

    Each operation goes to a random host of the last `storage` ones. A write may be copied to `replicas` others. Each of the
    `outstanding` places has `rounds` operations, or endlessly many. Groups `read`, `write` and `replica`.
    """
    hosts, replicas, mix = context.hosts, keys.replicas, MIXES[keys.mix]
    stores = max(1, len(hosts) // 4) if keys.storage is None else keys.storage
    require(1 <= stores < len(hosts), "storage", stores, f"is not in 1..{len(hosts) - 1}; the other hosts compute")
    require(replicas < stores, "replicas", replicas, f"is not below the {stores} storage hosts; a copy is on another one")
    gates, flows = Gates(), list[FlowRequest]()
    for client in hosts[:-stores]:
        for slot in range(keys.outstanding):
            slot_flows = chained(context, gates, keys.rounds, _operations(context, client, slot, hosts[-stores:], mix))
            flows += slot_flows + _copies(context, gates, slot, slot_flows, hosts[-stores:], replicas)
    return bounded(flows)


def _operations(
    context: WorkloadContext, client: str, slot: int, stores: list[str], mix: StorageMix
) -> Callable[[int], tuple[FlowRequest, int]]:
    stream, sizes = context.stream(client, slot), mix.sizes()

    def make(rep: int) -> tuple[FlowRequest, int]:
        store, size, reads = stream.choose(stores), stream.choose(sizes), stream.below(10) < mix.reads
        ends = (store, client) if reads else (client, store)
        return FlowRequest(*ends, DEFAULT_PORT, size_bytes=size, group="read" if reads else "write"), 0

    return make


def _copies(
    context: WorkloadContext, gates: Gates, slot: int, flows: list[FlowRequest], stores: list[str], replicas: int
) -> list[FlowRequest]:
    """From the storage host that was written to, when it has the block. The operation does not wait for its copies."""
    copies = []
    for number, flow in enumerate(flows):
        if flow.group != "write" or not replicas:
            continue
        gate = gates.new()
        flows[number] = replace(flow, opens=(*flow.opens, gate))
        stream = context.stream("copies", flow.src, slot, number)
        others = stream.shuffled([store for store in stores if store != flow.dst])
        for other in others[:replicas]:
            copy = FlowRequest(
                flow.dst, other, DEFAULT_PORT, size_bytes=flow.size_bytes, group="replica", rep=flow.rep, gate=gate
            )
            copies.append(replace(copy, spare=flow.spare))
    return copies


register("storage", storage, StorageKeys)
