# SPDX-License-Identifier: Apache-2.0
"""ACC's offline training. A run depends on none of it."""
