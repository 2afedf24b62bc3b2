# SPDX-License-Identifier: Apache-2.0
"""ACC's offline training. What runs in a switch is policy `acc` (dc_gym/methods/acc/agent.py)."""
