# SPDX-License-Identifier: Apache-2.0
"""The Gymnasium environments: an agent controls an emulated network (docs/environment.md).

Importing this package registers their ids with Gymnasium.
"""

from dc_gym.learn.registration import register_all

register_all()
