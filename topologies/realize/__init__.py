# SPDX-License-Identifier: Apache-2.0
"""Makes a graph real: cables, queues and namespaces over netlink, Open vSwitch's bridges, Mininet's nodes."""
