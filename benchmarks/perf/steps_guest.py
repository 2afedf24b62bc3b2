# SPDX-License-Identifier: Apache-2.0
"""The program that `dcgym bench steps` runs in its bare lab: the ground of any run, with the kernel's AIO off.

Without AIO the queues are dumped with a system call or two per namespace, as a simple program would do it.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    Path("/proc/sys/fs/aio-max-nr").write_text("0")
    os.execv(sys.executable, [sys.executable, "-m", "dc_gym.grounds.guest.main", *sys.argv[1:]])
