#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the virtual environment $1 from the first Python >= 3.11 and installs this project into it, editable, with its tools.
# The distribution's own Python goes first: a lab started by another user must be able to read it.
set -eu
for python in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
	command -v "$python" >/dev/null || continue
	if "$python" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))'; then
		# One without pip is what an interrupted set-up leaves.
		"$1/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$1"
		"$1/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
		exit 0
	fi
done
echo "venv: no Python 3.11 or later with the venv module; install python3 and python3-venv" >&2
exit 1
