# SPDX-License-Identifier: Apache-2.0
"""S. Yan et al., ACC: Automatic ECN Tuning for High-Speed Datacenter Networks, SIGCOMM 2021"""
