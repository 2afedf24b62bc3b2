# SPDX-License-Identifier: Apache-2.0
"""The agents of a run: scene and frame, observations, actions, rewards, policies and the driver of a run's policy."""
