# SPDX-License-Identifier: Apache-2.0
"""RL-CC's pipeline: policies of NICs are trained, distilled and explained. What runs in the NIC is ctrl/nic/."""
