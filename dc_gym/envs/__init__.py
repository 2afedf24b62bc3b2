# SPDX-License-Identifier: Apache-2.0
"""The gym: a network under emulation as a Gymnasium environment (docs/environment.md). Importing it registers the ids."""

from dc_gym.envs.registration import register_all

register_all()
