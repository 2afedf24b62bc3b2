# SPDX-License-Identifier: Apache-2.0
"""Device files for NVIDIA's DOCA PCC: read as an algorithm of the NICs (importer.py), and written from one (exporter.py).

doca_pcc_dev.h declares the documented names of the device API. pcc.h is that API over the events of cc.h.
"""
