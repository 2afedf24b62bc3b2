/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
#include "doca_pcc_dev.h"
