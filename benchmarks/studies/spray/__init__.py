# SPDX-License-Identifier: Apache-2.0
"""Sprayed multipath: transport uec (after ultraethernet/uet-htsim @40ccb05), trimming, and TCP beside them"""
