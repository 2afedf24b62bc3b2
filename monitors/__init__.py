# SPDX-License-Identifier: Apache-2.0
"""qmon, the netlink queue monitor (C), capd (C, captures), the state matrix and its readers."""
