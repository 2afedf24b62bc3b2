# SPDX-License-Identifier: Apache-2.0
"""ACC's offline training. A switch runs policy `acc` (dc_gym/methods/acc/agent.py)."""
