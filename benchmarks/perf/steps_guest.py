# SPDX-License-Identifier: Apache-2.0
"""What `dcgym bench steps` runs in its bare lab: the ground of any run, with the kernel's AIO off, so that the queues are dumped
by a system call or two a namespace, as a program does that knows of nothing better."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    Path("/proc/sys/fs/aio-max-nr").write_text("0")
    os.execv(sys.executable, [sys.executable, "-m", "dc_gym.grounds.guest.main", *sys.argv[1:]])
