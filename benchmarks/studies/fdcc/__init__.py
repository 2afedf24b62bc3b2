# SPDX-License-Identifier: Apache-2.0
"""K. Zhang, An Investigation on Data Center Congestion Control Algorithms, MSc thesis, University of Alberta, 2023"""
