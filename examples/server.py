#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers each line, a number, with as many bytes. Used by programs.toml; nothing in it knows of dcgym."""

import socketserver


class Answer(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(bytes(int(line)))


with socketserver.ThreadingTCPServer(("", 8000), Answer) as server:
    server.serve_forever()
