#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a server (server.py) for BYTES bytes, TIMES times, and prints how long each answer took: client.py ADDRESS BYTES TIMES."""

import socket
import sys
import time

address, size, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.create_connection((address, 8000)) as connection, connection.makefile("rwb") as stream:
    for _ in range(times):
        begun_ns = time.monotonic_ns()
        stream.write(b"%d\n" % size)
        stream.flush()
        stream.read(size)
        print(f"{(time.monotonic_ns() - begun_ns) / 1e6:.3f} ms", flush=True)
        time.sleep(0.1)
