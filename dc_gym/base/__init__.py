# SPDX-License-Identifier: Apache-2.0
"""The base of all other packages: errors, units, keys, registries, files, progress."""
