# SPDX-License-Identifier: Apache-2.0
"""Registers aimd.h, an algorithm of the NIC: `plugins = ["aimd.py"]` in a spec, then `controller.name = "aimd"`."""

from pathlib import Path

from dc_gym.ctrl.controllers import Controller, register

header = Path(__file__).resolve().with_name("aimd.h")
register(Controller("aimd", "aimd", "AIMD on round trips", ecn=True, color="#661100", marker="d", nic=True, header=header))
