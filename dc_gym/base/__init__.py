# SPDX-License-Identifier: Apache-2.0
"""What all else stands on: errors, units, keys, registries, files, progress."""
