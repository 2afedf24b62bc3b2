# SPDX-License-Identifier: Apache-2.0
"""The `dcgym` command: parsers and commands. Below it, whole: shell/, watch/, conformance/ (packetdrill scripts), verify/."""
