#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the virtual environment $1 from the first Python >= 3.11, with the tools of requirements.lock, each checked against its hash,
# and with this project, editable. The distribution's own Python goes first: a lab started by another user must be able to read it.
# Two of these at once take turns.
set -eu
if [ -w "$0" ]; then exec 9>>"$0"; else exec 9<"$0"; fi # NFS locks only what is open for writing
flock 9
for python in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
	command -v "$python" >/dev/null || continue
	if "$python" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		# One without pip is what an interrupted set-up leaves.
		"$1/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$1"
		pip="$1/bin/python -m pip install --quiet --disable-pip-version-check"
		$pip --require-hashes --only-binary :all: -r requirements.lock
		$pip --no-deps --no-build-isolation -e .
		exit 0
	fi
done
echo "venv: no Python 3.11 or later with the venv module; install python3 and python3-venv" >&2
exit 1
