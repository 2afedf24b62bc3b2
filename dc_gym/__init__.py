# SPDX-License-Identifier: Apache-2.0
"""A testbed for datacenter congestion control: real Linux stacks in a lab kernel on virtual time."""

__version__ = "0.1.0"
