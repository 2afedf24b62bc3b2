# SPDX-License-Identifier: Apache-2.0
"""Registers aimd.h, an algorithm of the NIC: `plugins = ["aimd.py"]` in a spec, then `controller.name = "aimd"`.

Its keys are the header's CC_PARAMETERS: `[nic.parameters]` in a spec. The second line is for figures alone, and may be left out.
"""

from pathlib import Path

from dc_gym.ctrl.controllers import Controller, register
from dc_gym.figures import styles

register(Controller("aimd", "aimd", ecn=True, nic=True, header=Path(__file__).resolve().with_name("aimd.h")))
styles.register("aimd", color="#661100", marker="d", label="AIMD on round trips")
