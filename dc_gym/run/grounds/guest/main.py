# SPDX-License-Identifier: Apache-2.0
"""Builds the network of a plan, runs the traffic and the monitor, and counts losses: inside a ground, or from outside
(run/grounds/by_hand.py).

  python -m dc_gym.run.grounds.guest.main RUN_FOLDER [--ask]

The plan is RUN_FOLDER/.lab/plan.json, written by the runner on the host; --ask waits until it is there. tgen's flows and qmon's
ports lie beside it. The ground writes flows.bin, samples.bin, queues.trace and ground.json to RUN_FOLDER/.lab/out. A line
'::phase NAME' on standard output marks each phase.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dc_gym.base.errors import FabricError, TestbedError
from dc_gym.run.grounds.guest.captures import Captures
from dc_gym.run.grounds.guest.events import Events
from dc_gym.run.grounds.guest.programs import QMON_PRIORITY, TGEN_PRIORITY, Program, Traffic, tgen_argv
from dc_gym.run.grounds.guest.report import Counts, count
from dc_gym.run.grounds.guest.site import LabSite, Site, await_plan
from dc_gym.run.plan.plan import ASK, DATAPATH, FLOWS, GROUND, NICS, OUT, PORTS, REASON, Plan
from dc_gym.topologies.realize.datapath import FLOW_BYTES, DirectSwitches
from dc_gym.topologies.realize.ovs import OpenVSwitchDaemons, Programs, Switches
from dc_gym.traffic import execs
from dc_gym.traffic.execs import Execs

if TYPE_CHECKING:
    from dc_gym.topologies.realize.cables import Device
    from dc_gym.topologies.realize.fabric import Fabric

T = TypeVar("T")
Conclude = Callable[[str], Counts]
"""A function that is called with the last line of the program that sweeps, at the end of the duration."""


def main(argv: Sequence[str] = sys.argv, site: Site | None = None) -> int:
    try:
        if ASK in argv[2:]:
            await_plan()
        folder = Path(argv[1]) / ".lab"
        counts = _to_end(carry_out(Plan.read(folder / "plan.json"), folder, site or LabSite()))
        if counts is not None:
            (folder / OUT / GROUND).write_text(json.dumps(counts))
    except TestbedError as error:
        print(f"{REASON}{error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


def _to_end(program: Generator[None, None, T]) -> T:
    """Returns the result of a generator: inside a ground, an agent steps without it."""
    while True:
        try:
            next(program)
        except StopIteration as end:
            outcome: T = end.value
            return outcome


def carry_out(plan: Plan, folder: Path, site: Site) -> Generator[None, None, dict[str, Any] | None]:
    """Carries out the plan of a folder. Returns the counters; None after a shell. It yields while an agent steps."""
    with ExitStack() as stack:
        site.phase("switches")
        ovs, rules = _switches(plan, folder, site, stack)
        if plan.default_tcp and site.virtual:
            _set_default_tcp(plan.default_tcp)
        site.phase("fabric")
        fabric = stack.enter_context(site.fabric(plan, ovs, rules))
        site.name_hosts(plan.graph, folder / OUT)
        site.phase("programs")
        t0_ns = site.agree_t0(plan, fabric)
        if plan.shell is not None:
            from dc_gym.run.grounds.guest import shell

            shell.run(plan, site, fabric, t0_ns)
            return None
        programs_in_hosts = stack.enter_context(Execs(execs.from_json(plan.execs), folder.parent, t0_ns))
        if plan.execs:
            fabric.keep_neighbours(dict.fromkeys(command["host"] for command in plan.execs))
        captures = stack.enter_context(Captures(plan, folder, t0_ns, site))
        if plan.disturb:
            _disturb(plan.disturb, site)
        read_back = fabric.read_back(fabric.devices()) if plan.events else {}
        ends: list[dict[str, Any]] = []
        devices: dict[str, Device] = {}

        def conclude(late_sweeps: str) -> Counts:
            """Ends the senders beside tgen. Returns the counters of all ports, all of one instant on a virtual clock."""
            ends.extend(programs_in_hosts.finish())
            site.settle(fabric, int(late_sweeps.removeprefix("late ") or 0))
            captures.terminate()
            devices.update(fabric.devices())
            return count(fabric, devices)

        if plan.agent is None:
            before, after = _undirected(plan, folder, site, fabric, ovs, t0_ns, conclude)
        else:
            from dc_gym.run.grounds.guest import episodes

            before, after = yield from episodes.run(plan, folder, site, fabric, ovs, t0_ns, conclude)
        site.phase("counting")
        ovs.thaw()
        counts = {"t0_ns": t0_ns, "read_back": read_back or fabric.read_back(devices), "before": before, "after": after}
        counts |= {
            "losses": fabric.losses(devices),
            "queue_times": fabric.queue_times(),
            "next_hops": fabric.next_hops(),
            "reordering": fabric.reordering(),
            "exec": ends,
            **captures.finish(),
            **site.findings(),
        }
        return counts


def _disturb(command: str, site: Site) -> None:
    program = site.system.start(["/bin/sh", "-c", f"exec >&2; {command}"], 0)  # processes that it leaves running may print later
    if status := program.wait():
        raise FabricError(f"{command}: ended with status {status}")


def _switches(plan: Plan, folder: Path, site: Site, stack: ExitStack) -> tuple[Switches, Mapping[str, Any]]:
    """Returns the started datapath or daemons, and the rules of each switch in their form."""
    if plan.direct is None:
        programs = Programs(Path(plan.openvswitch))
        os.environ.update(programs.environment())
        return stack.enter_context(OpenVSwitchDaemons(programs)), plan.rules
    flows, flows_of = BytesIO((folder / DATAPATH).read_bytes()), {}
    for switch, count_of_flows in plan.direct.items():
        flows_of[switch] = flows.read(count_of_flows * FLOW_BYTES)
    return stack.enter_context(DirectSwitches(site.system)), flows_of


def _set_default_tcp(name: str) -> None:
    """Sets the TCP of programs that choose none. Hosts that are made later inherit it, DCTCP included."""
    from dc_gym.topologies.realize.system import HERE

    HERE.write_sysctls({"net/ipv4/tcp_congestion_control": name})


def _undirected(
    plan: Plan, folder: Path, site: Site, fabric: Fabric, ovs: Switches, t0_ns: int, conclude: Conclude
) -> tuple[Counts, Counts]:
    """Runs the traffic of a run without an agent. Returns the counters before and after it.

    tgen's sockets stay open until all is counted: frames that found one closed would be answered. The NICs stay likewise, but in
    real time they would send for as long as one waits for rest.
    """
    with ExitStack() as stack:
        qmon = stack.enter_context(
            Program([*_qmon(plan, folder, site.matrix, t0_ns), *site.qmon_options], QMON_PRIORITY, site.system)
        )
        qmon.expect_ready()  # tgen reads its matrix
        loader, ids = None, ""
        if plan.nic is not None:
            from dc_gym.run.grounds.guest.nic_loader import NicLoader, make_devices

            make_devices(plan.nic, fabric)
            loader = NicLoader(plan.nic, plan.programs, folder, NICS, site.matrix, t0_ns, site)
            stack.enter_context(loader)
            ids = loader.tables()
        keep = plan.nic is not None and plan.nic["keep_pairs"]
        traffic = Traffic(FLOWS, plan.seed, plan.duration_ns, plan.tcp_interval_ns, plan.tcp_interval_ns, ids, keep)
        tgen = stack.enter_context(Program(tgen_argv(plan, folder, site.matrix, t0_ns, traffic), TGEN_PRIORITY, site.system))
        tgen.expect_ready()
        events = stack.enter_context(Events(plan, folder, t0_ns, ovs, site))
        before = count(fabric)
        if not plan.execs:  # a program's flows are not known in advance: the switches must learn them
            ovs.freeze()
        fabric.seed_draws(plan.seed)
        fabric.count_queues(t0_ns + plan.warmup_ns, t0_ns + plan.duration_ns)
        fabric.impair(plan.seed, t0_ns, events.lossy)
        site.arm(t0_ns)
        site.phase("traffic")
        tgen.tell("go\n")
        late_sweeps = qmon.expect_end()
        events.finish()
        if loader is not None and not site.virtual:
            loader.finish()
        after = conclude(late_sweeps)
        tgen.tell("end\n")
        tgen.expect_end()
        if loader is not None:
            loader.finish()
        return before, after


def _qmon(plan: Plan, folder: Path, matrix: str, t0_ns: int) -> list[str]:
    sweeps = plan.duration_ns // plan.interval_ns + 1
    return [
        f"{plan.programs}/qmon", "--ports", str(folder / PORTS), "--interval", str(plan.interval_ns),
        "--t0", str(t0_ns), "--count", str(sweeps), "--matrix", matrix, "--flow-rows", str(plan.flow_rows),
        "--trace", str(folder / OUT / "queues.trace"),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
