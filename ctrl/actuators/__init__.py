# SPDX-License-Identifier: Apache-2.0
"""The actuators: the values that an agent may set (actuator.py defines them). Importing a module here registers its actuator."""

from __future__ import annotations

from dc_gym.ctrl.actuators import marking, rate, window
from dc_gym.ctrl.actuators.actuator import KINDS, Actuator, Attribute, Bounds, Place, Quantity, find, keys_of, names, register

__all__ = ["ACTUATORS", "KINDS", "Actuator", "Attribute", "Bounds", "Place", "Quantity", "find", "keys_of", "names", "register"]

ACTUATORS = (marking, rate, window)
