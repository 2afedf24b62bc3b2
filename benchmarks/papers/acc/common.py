# SPDX-License-Identifier: Apache-2.0
"""The network of figures 1 and 2 of ACC (Yan et al., SIGCOMM 2021), and what both of them share.

ACC gives servers and rates: 24 servers at 25 Gbit/s, 2 leaves and 2 spines at 100 Gbit/s (preset acc24a). Its fabric is lossless
by PFC, which is not modelled here: what PFC would hold back in the hosts waits in the ports, which therefore have 20 MB each. The
NICs run DCQCN with the parameters of its own paper. ACC's NICs are ConnectX-5, whose parameters it does not give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NETWORK: Mapping[str, Any] = {
    "topology.preset": "acc24a",
    "topology.buffer": "20MB",
    "controller.name": "dcqcn",
    "nic.preset": "paper",
    "nic.trace": "off",
}
FACTS = (
    ("Network", "24 servers at 25 Gbit/s, 2 leaves, 2 spines at 100 Gbit/s (preset acc24a), 20 MB a port"),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper; lossy: PFC is not modelled yet"),
)
LOSSY = (
    "ACC's fabric is lossless by PFC. Here it is not: ports have 20 MB, so that waiting frames are in the ports instead of the "
    "hosts, and the table says what was dropped all the same."
)
