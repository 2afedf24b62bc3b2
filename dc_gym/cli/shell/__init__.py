# SPDX-License-Identifier: Apache-2.0
"""`dcgym shell`: a spec's network, and a prompt at which commands run in its hosts (guest/shell.py is the other side).

network.py       boots the network, and ends it
conversation.py  answers the ground: reads commands, shows their output, passes on Ctrl-C
commands.py      the commands that need no host: nodes, links, help, ...
keeping.py       keeps files that commands have written
keyboard.py      lends the terminal to the command that runs
visitors.py      lets further prompts come (`dcgym attach`);  visit.py is their side
sources.py       where commands come from: a terminal with history and completion, or standard input
programs.py      finds the program that a command would run, and names the package to install
"""
