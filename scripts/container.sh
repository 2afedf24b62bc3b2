#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The entry point of the image: dcgym, and a word about where results stay.
if ! grep -q ' /work ' /proc/self/mounts; then
	echo 'dcgym: nothing is mounted at /work, so results stay in this container: docker run -v "$PWD:/work" ...' >&2
fi
if ! [ -w /tmp ]; then
	echo 'dcgym: /tmp is read-only here: docker run --tmpfs /tmp ...' >&2
	exit 2
fi
exec dcgym "$@"
