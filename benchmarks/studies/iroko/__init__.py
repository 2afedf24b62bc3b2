# SPDX-License-Identifier: Apache-2.0
"""F. Ruffy Varga, Data-Driven Datacenter Traffic Control, MSc thesis, University of British Columbia, 2019"""
