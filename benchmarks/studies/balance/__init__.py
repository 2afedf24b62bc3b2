# SPDX-License-Identifier: Apache-2.0
"""Load balancing in switches (LetFlow, NSDI 2017; DRILL, SIGCOMM 2017)"""
