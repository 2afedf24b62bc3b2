# SPDX-License-Identifier: Apache-2.0
"""What acts in a run: scene and frame, observations, actions, rewards, policies and the driver of a run's policy."""
