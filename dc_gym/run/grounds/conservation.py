# SPDX-License-Identifier: Apache-2.0
"""The conservation check: every frame is accounted for, and none was lost outside a queue.

It compares counters at two times of a run (docs/results.md, "Fit or unfit"):
- cable: the frames that an end has sent are the frames that its peer has received, plus frames on their way, plus lost ones.
  Losses by the link's own loss rate, or because an event has cut it, are as requested; losses because the peer was down are not.
- pauses: the PAUSE frames that an end has sent, its peer has received or will receive. They pass no queue and are counted apart.
- port: the cable has sent the frames that the queue has released.
- switch: the frames that came in through all its ports were sent by its cables, dropped by its queues, or are held by them. Bytes
  are exact where nothing was dropped; what trimming cut off is counted. A queue counts its drops in packets, so with drops the
  missing bytes must fit that many frames.
"""

from __future__ import annotations

from collections.abc import Mapping

from dc_gym.topologies.graph import Graph

Counters = Mapping[str, int]
SMALLEST_FRAME_BYTES = 60


def violations(graph: Graph, before: Mapping[str, Counters], after: Mapping[str, Counters], losses: Counters) -> list[str]:
    """Returns sentences about everything that is not conserved; none for a fit run.

    The counters by port come from dc_gym.run.grounds.guest.report.count().
    """
    delta = {port: {name: after[port][name] - before[port].get(name, 0) for name in after[port]} for port in after}
    sentences = []
    for port in graph.ports():
        sentences += _cable(port.ifname, delta[port.ifname], delta[graph.peer(port).ifname])
    for switch in graph.switches:
        sentences += _switch(switch.name, [delta[port.ifname] for port in graph.ports_of(switch.name)], graph.frame_bytes)
    sentences += [f"{count} packets lost: {_WORDS.get(name, name)}" for name, count in losses.items() if count]
    return sentences


def account(graph: Graph, before: Mapping[str, Counters], after: Mapping[str, Counters], losses: Counters) -> dict[str, int]:
    """Returns where the frames of a run went, for its certificate.

    In a fit run, the frames that hosts sent are the sum of the next six numbers.
    """
    hosts = [port.ifname for host in graph.hosts for port in graph.ports_of(host.name)]
    switches = [port.ifname for port in graph.switch_ports()]

    def gained(ports: list[str], counter: str) -> int:
        return sum(after[port][counter] - before[port].get(counter, 0) for port in ports)

    held = sum(after[port]["flight_packets"] for port in (*hosts, *switches))
    held += sum(after[port]["queue_backlog_packets"] for port in switches)
    return {
        "sent_by_hosts": gained(hosts, "tx_packets"),
        "received_by_hosts": gained(hosts, "rx_packets"),
        "dropped_by_switches": gained(switches, "queue_drops"),
        "under_way": held,
        "lost_on_links": gained([*hosts, *switches], "dropped_packets"),
        "lost_in_cuts": gained([*hosts, *switches], "cut_packets"),
        "lost_elsewhere": sum(losses.values()),
        "dropped_by_hosts": gained(hosts, "queue_drops"),
        "cables_checked": len(graph.cables),
        "switches_checked": len(graph.switches),
        **({"trimmed": gained(switches, "queue_trimmed_packets")} if trims(graph) else {}),
    }


def trims(graph: Graph) -> bool:
    """Returns True if ports trim frames that they would drop. A frame may be trimmed and then arrive, or be dropped, likewise."""
    return any(port.queue.trim for port in graph.switch_ports())


def lost_on_links(graph: Graph, before: Mapping[str, Counters], after: Mapping[str, Counters]) -> list[int]:
    """Returns the frames that each port sent and its link lost, by its loss rate or a cut, in the order of `graph.ports()`."""
    names, counters = [port.ifname for port in graph.ports()], ("dropped_packets", "cut_packets")
    return [sum(after[name][counter] - before[name].get(counter, 0) for counter in counters) for name in names]


_WORDS = {
    "softnet": "softnet backlog full (net.core.netdev_max_backlog)",
    "cable": "frames found their cable's other end down",
    "datapath": "no flow in Open vSwitch's datapath",
}


def _cable(name: str, end: Counters, peer: Counters) -> list[str]:
    sentences = []
    for unit in ("packets", "bytes"):
        arrived = peer[f"rx_{unit}"] + end[f"flight_{unit}"] + end[f"lost_{unit}"] + end[f"dropped_{unit}"]
        arrived += end[f"cut_{unit}"]
        if end[f"tx_{unit}"] != arrived:
            sentences.append(f"{name}: sent {end[f'tx_{unit}']} {unit}, but {arrived} arrived, are on their way or were lost")
    pauses = peer["pauses_received"] + end["pauses_in_flight"] + end["pauses_lost"]
    if end["pauses_sent"] != pauses:
        sentences.append(f"{name}: sent {end['pauses_sent']} PAUSE frames, but {pauses} arrived, are on their way or were lost")
    if end["queue_tx_packets"] != end["tx_packets"]:
        sentences.append(f"{name}: its queue let {end['queue_tx_packets']} packets go and the cable sent {end['tx_packets']}")
    return sentences


def _switch(name: str, ports: list[Counters], frame_bytes: int) -> list[str]:
    def total(counter: str) -> int:
        return sum(port[counter] for port in ports)

    received, dropped = total("rx_packets"), total("queue_drops")
    out = total("tx_packets") + dropped + total("queue_backlog_packets")
    if received != out:
        return [f"{name}: received {received} packets and sent, dropped or holds {out}"]
    missing = total("rx_bytes") - total("tx_bytes") - total("queue_backlog_bytes") - total("queue_trimmed_bytes")
    if not dropped * SMALLEST_FRAME_BYTES <= missing <= dropped * frame_bytes:
        return [f"{name}: {missing} bytes are missing for {dropped} dropped packets"]
    return []
