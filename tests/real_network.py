# SPDX-License-Identifier: Apache-2.0
"""A stand-in for dc_gym.run.grounds.host.inside: no network, but its words, its shared memory, and sweeps in real time.

    python real_network.py RUN_FOLDER FD

Every port has sent what all hosts together may, so that counters grow with the rates that are in force.
"""

import mmap
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from dc_gym.base import record_file
from dc_gym.monitors.state_matrix import COLUMNS, COMMAND_ROW, COMMANDS, FLOW, HEADER, NAME_LEN
from dc_gym.run.plan import inputs
from dc_gym.run.plan.plan import ACTUATORS, AgentPlan, Episode, Plan

S = 10**9


class Memory:
    """The state matrix, as agentd lays it out."""

    def __init__(self, fd: int, plan: Plan, flow_rows: int, actuators: np.ndarray) -> None:
        ports = [port.ifname for port in plan.graph.ports()]
        names = HEADER.itemsize + len(ports) * NAME_LEN
        cells = names + len(COLUMNS) * NAME_LEN
        activity = cells + len(ports) * len(COLUMNS) * 8
        flows = activity + len(ports) * 8
        commands = flows + flow_rows * FLOW.itemsize
        total = commands + COMMANDS.itemsize + len(actuators) * COMMAND_ROW.itemsize
        os.ftruncate(fd, total)
        self.region = mmap.mmap(fd, total)
        self.region[HEADER.itemsize : cells] = b"".join(label.encode().ljust(NAME_LEN, b"\0") for label in (*ports, *COLUMNS))
        self.head = np.frombuffer(self.region, HEADER, 1)
        self.cells = np.frombuffer(self.region, "<u8", len(ports) * len(COLUMNS), cells).reshape(len(ports), len(COLUMNS))
        self.commands = np.frombuffer(self.region, COMMANDS, 1, commands)
        self.rows = np.frombuffer(self.region, COMMAND_ROW, len(actuators), commands + COMMANDS.itemsize)
        for name in ("row", "n_values", "actuator"):
            self.rows[name] = actuators[name]
        self.start = actuators["start"]
        parts = {"off_row_names": HEADER.itemsize, "off_col_names": names, "off_cells": cells, "off_activity": activity}
        parts |= {"off_flows": flows, "off_commands": commands, "flow_rows": flow_rows, "command_rows": len(actuators)}
        parts |= {"header_len": HEADER.itemsize, "version_major": 2, "rows": len(ports), "cols": len(COLUMNS)}
        parts |= {"total_len": total, "interval_ns": plan.interval_ns, "magic": b"DCGYMSM1"}
        for name, value in parts.items():
            self.head[name] = value

    def begin(self, t0_ns: int) -> None:
        self.head["t0_ns"], self.commands["end"] = t0_ns, 0
        self.rows["wanted"] = self.rows["in_force"] = self.start

    def sweep(self, t_ns: int, interval_ns: int) -> None:
        self.head["seq"] += 1
        rates_bps = self.rows["in_force"][self.rows["actuator"] == b"rate", 0]
        self.cells[:, COLUMNS.index("tx_bytes")] += np.uint64(int(rates_bps.sum()) * interval_ns // 8 // S)
        self.rows["in_force"] = self.rows["wanted"]
        self.head["t_ns"] = t_ns
        self.head["generation"] += 1
        self.head["seq"] += 1


def main(folder: Path, fd: int) -> None:
    orders = threading.Semaphore(0)
    threading.Thread(target=listen, args=(orders,), daemon=True).start()
    plan = Plan.read(folder / "plan.json")
    agent = AgentPlan.from_json(plan.agent)
    kinds = inputs.ACTUATOR_ROW, inputs.ACTUATOR_FIELD, inputs.REQUEST_BYTE
    actuators, _, _ = record_file.read(folder / ACTUATORS, kinds)
    memory = Memory(fd, plan, agent.flow_rows, actuators.records)
    print("::phase traffic\nthe fake network stands", flush=True)
    number = 0
    while True:
        episode = Episode.read(folder, number)
        t0_ns = time.monotonic_ns() + S // 20
        memory.begin(t0_ns)
        print(f"::t0 {t0_ns}", flush=True)
        for k in range(episode.steps * agent.step_ns // plan.interval_ns + 1):
            due_ns = t0_ns + k * plan.interval_ns
            time.sleep(max(0, due_ns - time.monotonic_ns()) / S)
            memory.sweep(due_ns, plan.interval_ns)
            if memory.commands["end"][0] and k * plan.interval_ns % agent.step_ns == 0:
                break
        if agent.keeps:
            return
        orders.acquire()
        number += 1


def listen(orders: threading.Semaphore) -> None:
    while data := os.read(0, 64):
        for _ in range(data.count(b"\n")):
            orders.release()
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]) / ".lab", int(sys.argv[2]))
