# SPDX-License-Identifier: Apache-2.0
"""RL-CC's pipeline: it trains, distils and explains policies for NICs. The code that runs in the NIC is in ctrl/nic/."""
