# SPDX-License-Identifier: Apache-2.0
"""Registers aimd.h, an algorithm of the NIC: `plugins = ["aimd.py"]` in a spec, then `controller.name = "aimd"`.

Its keys are the header's CC_PARAMETERS: `[nic.parameters]` in a spec. Colour and marker are for figures, and may be left out.
"""

from dc_gym.ctrl.controllers import Controller, register

register(Controller("aimd", "aimd", "AIMD on round trips", ecn=True, nic=True, header="aimd.h", color="#661100", marker="d"))
