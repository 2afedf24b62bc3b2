# SPDX-License-Identifier: Apache-2.0
PATH=/opt/dcgym/bin:$PATH
