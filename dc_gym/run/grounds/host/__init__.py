# SPDX-License-Identifier: Apache-2.0
"""The host ground: this machine's own kernel, as root, in real time (docs/host.md); and a VM to run it in (`dcgym vm`)."""
