# SPDX-License-Identifier: Apache-2.0
"""Networks, trees and the integer tables that a NIC or a switch computes."""
