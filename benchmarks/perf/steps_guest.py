# SPDX-License-Identifier: Apache-2.0
"""The program that `dcgym bench steps` runs in its bare lab: with the kernel's AIO off it becomes the program of its arguments.

Without AIO the queues are dumped with a system call or two per namespace, as a simple program would do it.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    Path("/proc/sys/fs/aio-max-nr").write_text("0")
    os.execv(sys.argv[1], sys.argv[1:])
