# SPDX-License-Identifier: Apache-2.0
"""Two racks behind a slow link, as Mininet writes it: `sudo mn --custom two_racks.py --topo two_racks` takes it as well."""

from mininet.topo import Topo


class TwoRacks(Topo):
    def build(self, hosts: int = 2) -> None:
        left, right = self.addSwitch("s1"), self.addSwitch("s2")
        for number in range(1, 2 * hosts + 1):
            self.addLink(self.addHost(f"h{number}"), left if number <= hosts else right, bw=1000, delay="10us")
        self.addLink(left, right, bw=100, delay="50us", max_queue_size=200)


topos = {"two_racks": TwoRacks}
