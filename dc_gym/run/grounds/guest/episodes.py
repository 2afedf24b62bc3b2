# SPDX-License-Identifier: Apache-2.0
"""Runs the episodes of a run with a central agent, inside a ground. The network stays; traffic starts anew in each episode.

`agentd` (ctrl/) sweeps, passes on the state and enforces rates. This module starts the traffic of an episode, waits for its end,
and brings the network back to rest: it aborts the traffic, every actuator gets its value of the start, events are undone, and the
site lets time pass. In a lab that is QUIET_NS of virtual time or more, which costs no wall-clock time. In this time TIME_WAIT
ends (60 s), queues drain, frames arrive, buckets fill, and RED's average decays. In real time hosts keep no TIME_WAIT, and the
wait is as long as queues and sockets take. The module then checks that nothing is left. The switches' flows stay: they are rules
of the network. Those of new connections are added before traffic starts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from re import search
from typing import TYPE_CHECKING

from dc_gym.base.errors import FabricError
from dc_gym.run.grounds import conservation
from dc_gym.run.grounds.guest.events import Events, undo
from dc_gym.run.grounds.guest.nic_loader import NicLoader, make_devices
from dc_gym.run.grounds.guest.programs import QMON_PRIORITY, TGEN_PRIORITY, Program, Traffic, tgen_argv
from dc_gym.run.grounds.guest.report import Counts, count
from dc_gym.run.grounds.guest.site import S, Site
from dc_gym.run.plan.plan import ACTUATORS, END_OF_RUN, OUT, PORTS, UNFIT, AgentPlan, ControlPlan, Episode, Plan
from dc_gym.topologies.realize import tc
from dc_gym.topologies.realize.control_network import NETNS as CONTROL_NETNS
from dc_gym.topologies.realize.control_network import ControlNetwork
from dc_gym.topologies.realize.rtnl import QDISCS

if TYPE_CHECKING:
    from dc_gym.topologies.realize.fabric import Fabric
    from dc_gym.topologies.realize.ovs import Switches

AGENTD_PRIORITY = 5  # in a lab, below tgen's: at the same instant, flows are read before queues. In real time the same as qmon's
HOSTD_PRIORITY = 6  # a host applies a command before its state is read
NEVER_MS = str(2**31 - 1)
"""24 days in ms. The kernel repeats its work on neighbours after half of this time."""
TGEN_ABORTED = 143
SHORT_NS = 10 * S
"""A lab rests for this time longer than TIME_WAIT lasts."""
SOCKETS = "/proc/thread-self/net/sockstat"
HOSTD_SOCKETS = "UDP sockets inuse"
"""The name in `in_use` of the counter that includes hostd's sockets."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The network and the programs that all episodes of a run share."""

    plan: Plan
    agent: AgentPlan
    folder: Path
    site: Site
    fabric: Fabric
    ovs: Switches
    control: ControlNetwork | None
    agentd: Program


def run(
    plan: Plan,
    folder: Path,
    site: Site,
    fabric: Fabric,
    ovs: Switches,
    t0_ns: int,
    conclude: Callable[[str], Counts],
) -> Generator[None, None, tuple[Counts, Counts]]:
    """Runs episodes until the agent's side ends the run. Returns the counters before the first episode, and after the last one.

    It yields while the agent steps: where an episode begins, time passes until agentd reports its end.
    `conclude` is called with agentd's last line then, and returns the latter.
    """
    assert plan.agent is not None
    agent = AgentPlan.from_json(plan.agent)
    with ExitStack() as stack:
        make_devices(plan.nic, fabric)
        control = _control(plan, agent, folder, site, stack)
        priority = AGENTD_PRIORITY if site.virtual else QMON_PRIORITY
        agentd = stack.enter_context(Program(_agentd(plan, agent, folder, site), priority, site.system))
        agentd.expect_ready()
        stage = Stage(plan, agent, folder, site, fabric, ovs, control, agentd)
        if site.virtual:
            _draw_first(site, plan.graph.hosts[0].name)
        before = count(fabric)
        number = 0
        while (after := (yield from _one(stage, t0_ns, number, conclude))) is None:
            site.phase("reset")
            _rest(stage)
            t0_ns = site.next_t0(plan.waits.warm_ns(agent.flow_rows))
            number += 1
        return before, after


def _control(plan: Plan, agent: AgentPlan, folder: Path, site: Site, stack: ExitStack) -> ControlNetwork | None:
    """Starts the network of control packets and the hosts' agents in it. Returns None if agentd sets everything itself."""
    if agent.control is None:
        return None
    hosts = [host.name for host in plan.graph.hosts]
    control = stack.enter_context(ControlNetwork(hosts, agent.control.delay_ns, agent.control.loss_ppb, site.system))
    hostd = stack.enter_context(Program(_hostd(plan, folder), HOSTD_PRIORITY, site.system))
    hostd.expect_ready()
    return control


def _draw_first(site: Site, host: str) -> None:
    """Makes the kernel draw its own random numbers before the first episode.

    These draws must not come from the stream of an episode's seed. Otherwise all later draws (RED's marks) would differ from
    those in a fresh lab. The kernel draws secrets of sequence numbers and hash tables at the first connection. Every 300 s it
    also draws for how long neighbours count as reachable, which has no effect where all of them are permanent.
    """
    from dc_gym.topologies.realize.fabric import netns_path

    reachable = {f"net/{family}/neigh/default/base_reachable_time_ms": NEVER_MS for family in ("ipv4", "ipv6")}
    site.system.write_sysctls(reachable)
    site.system.connect_once(netns_path(host))


def _one(stage: Stage, t0_ns: int, number: int, conclude: Callable[[str], Counts]) -> Generator[None, None, Counts | None]:
    """Runs one episode. Returns the counters at the run's end, or None if another episode follows.

    Raises FabricError if another follows, and this one was unfit.
    """
    episode = Episode.read(stage.folder, number)
    plan, loader, ids = stage.plan, None, ""
    stage.ovs.thaw()
    if stage.control is not None:
        stage.control.impair(episode.seed, t0_ns)
    with ExitStack() as stack:
        if plan.nic is not None:
            keeps, matrix = stage.agent.keeps, stage.site.matrix
            loader = NicLoader(plan.nic, plan.programs, stage.folder, episode.nics, matrix, t0_ns, stage.site, trace=keeps)
            stack.enter_context(loader)
            ids = loader.tables()
        tgen = stack.enter_context(Program(_tgen(stage, t0_ns, episode, ids), TGEN_PRIORITY, stage.site.system))
        tgen.expect_ready()
        events = stack.enter_context(Events(plan, stage.folder, t0_ns, stage.ovs, stage.site, episode.events))
        if not plan.execs:
            stage.ovs.freeze()
        before = count(stage.fabric)
        stage.fabric.seed_draws(episode.seed)
        if stage.agent.keeps:  # for the metrics of a run
            stage.fabric.count_queues(t0_ns + plan.warmup_ns, t0_ns + plan.duration_ns)
        stage.fabric.impair(episode.seed, t0_ns, events.lossy)
        stage.agentd.tell(f"episode {t0_ns} {episode.steps}\n")
        stage.site.arm(t0_ns, episode.seed)
        stage.site.phase("traffic")
        tgen.tell("go\n")
        stage.agentd.listen()
        yield
        code = stage.site.verdict(_code(stage.agentd.hear()), stage.agent.keeps)
        after = None
        if code == END_OF_RUN:
            stage.agentd.hang_up()
            after = conclude(stage.agentd.expect_end())
            tgen.tell("end\n")
            tgen.expect_end()
        else:
            _require_fit(stage, before)
            tgen.stop(TGEN_ABORTED)
        events.finish()
        if loader is not None:
            loader.finish()
    return after


def _require_fit(stage: Stage, before: Counts) -> None:
    """Raises FabricError if an episode is as a run that is unfit. `before` are the counters before it."""
    devices = stage.fabric.devices()
    after = count(stage.fabric, devices)
    stage.ovs.thaw()
    if unfit := conservation.violations(stage.fabric.graph, before, after, stage.fabric.losses(devices)):
        raise FabricError(f"{UNFIT}: {'; '.join(unfit)}")


def _code(line: str) -> int:
    match = search(r"^over [0-9]+ ([0-9]+)$", line)
    if match is None:
        raise FabricError(f"agentd said {line!r} where 'over STEP CODE' was expected")
    return int(match[1])


def _rest(stage: Stage) -> None:
    """Brings the network back to rest: nothing is queued, and no host has a socket except its own agent's.

    Rest is an absolute state, not a comparison with the state before the first episode: processes of the set-up may or may not be
    running by then. agentd has set every actuator to its start before it reports that the episode is over, and sends nothing
    after that.
    """
    fabric, of_agents = stage.fabric, 0
    undo(stage.plan, fabric)
    if stage.agent.control is not None:
        _outlast(stage.agent.control, stage.site, fabric)
        of_agents = sum(len(fabric.graph.ports_of(host.name)) for host in fabric.graph.hosts)  # hostd has one for each egress

    def left() -> dict[str, int]:
        totals = in_use(stage.site, fabric, are_long=not stage.site.virtual or stage.plan.waits.drain_ns > SHORT_NS)
        totals[HOSTD_SOCKETS] -= of_agents
        return {name: number for name, number in totals.items() if number}

    clock_ns = stage.site.system.clock_ns
    began_ns = clock_ns()
    if remaining := stage.site.rest(stage.plan.waits.drain_ns, left):
        leftovers = ", ".join(f"{name}: {count}" for name, count in remaining.items())
        waited_s = (clock_ns() - began_ns) // S
        raise FabricError(f"reset: {waited_s} s after the traffic was stopped there are still {leftovers}")


def _outlast(control: ControlPlan, site: Site, fabric: Fabric) -> None:
    """Lets all commands that are still under way arrive, and undoes them. Hosts will obey them, and agentd cannot see them.

    A command that came later would leave a host at its floor, where a full queue takes too long to drain.
    """
    site.system.sleep(control.delay_ns + S)
    for host in fabric.graph.hosts:
        sock = fabric.socket_of(host.name)
        queues = {fabric.ifindexes[port.ifname]: (port.ifname, port.queue) for port in fabric.graph.ports_of(host.name)}
        sock.batch([tc.set_queue(ifindex, queue, name) for ifindex, (name, queue) in queues.items()])
        tc.check_queues(sock, queues)


def in_use(site: Site, fabric: Fabric, *, are_long: bool) -> dict[str, int]:
    """Returns totals over all hosts and switches: frames on links, bytes in queues, sockets in use, in TIME_WAIT, orphaned.

    `are_long` is False if no frame can be on its way for as long as the network rests. They are then not counted.
    """
    from dc_gym.topologies.realize.fabric import netns_path

    totals = {"frames on links": sum(device.flight_packets for device in fabric.devices().values()) if are_long else 0}
    fabric.asked(QDISCS)
    for node in ("", *(host.name for host in fabric.graph.hosts)):
        backlog = sum(queue.backlog_bytes for queue in tc.queue_counters(fabric.socket_of(node)).values())
        totals["queued bytes"] = totals.get("queued bytes", 0) + backlog
    for (text,) in site.system.read([SOCKETS], [netns_path(host.name) for host in fabric.graph.hosts]):
        for kind, name in (("TCP", "inuse"), ("TCP", "orphan"), ("TCP", "tw"), ("UDP", "inuse")):
            match = search(rf"{kind}:.*?\b{name} ([0-9]+)", text)
            key = f"{kind} sockets {name}"
            totals[key] = totals.get(key, 0) + (int(match[1]) if match else 0)
    return totals


def _agentd(plan: Plan, agent: AgentPlan, folder: Path, site: Site) -> list[str]:
    argv = [
        f"{plan.programs}/agentd", "--ports", str(folder / PORTS), "--actuators", str(folder / ACTUATORS),
        "--interval", str(plan.interval_ns), "--step", str(agent.step_ns), "--latency", str(agent.latency_ns),
        "--matrix", site.matrix, "--flow-rows", str(agent.flow_rows),
        *(("--channel", site.matrix) if site.virtual else ("--check-late",)),
    ]  # fmt: skip
    if agent.control is not None:
        argv += ["--control-netns", CONTROL_NETNS, "--timeout", str(agent.control.timeout_ns)]
    return [*argv, "--trace", str(folder / OUT / "queues.trace")] if agent.keeps else argv


def _hostd(plan: Plan, folder: Path) -> list[str]:
    return [f"{plan.programs}/hostd", "--ports", str(folder / PORTS), "--actuators", str(folder / ACTUATORS)]


def _tgen(stage: Stage, t0_ns: int, episode: Episode, nic_ids: str) -> list[str]:
    plan, agent = stage.plan, stage.agent
    sample_ns = plan.tcp_interval_ns if agent.keeps else 0
    duration_ns, keep_pairs = episode.steps * agent.step_ns, plan.nic is not None and plan.nic["keep_pairs"]
    traffic = Traffic(episode.flows, episode.seed, duration_ns, sample_ns, agent.publish_ns, nic_ids, keep_pairs)
    return tgen_argv(plan, stage.folder, stage.site.matrix, t0_ns, traffic)
