# SPDX-License-Identifier: Apache-2.0
# dcgym, and what dcgym conformance calls: tc, sysctl, ethtool.
PATH=/opt/dcgym/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin
