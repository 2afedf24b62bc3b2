#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the distribution packages that building and testing need, and those given as arguments; asks for sudo only when one is missing.
set -eu
PACKAGES="gcc libc6-dev make flex bison bc patch xz-utils iproute2 python3-venv ca-certificates clang libclang-rt-dev libbpf-dev libcmocka-dev procps ethtool${*:+ $*}"

command -v dpkg-query >/dev/null || { echo "packages: no dpkg on this machine; install by hand: $PACKAGES" >&2; exit 0; }
missing=""
for package in $PACKAGES; do
	case "$(dpkg-query -W -f '${Status}' "$package" 2>&1)" in
	"install ok installed") ;;
	*) missing="$missing $package" ;;
	esac
done
[ -z "$missing" ] && exit 0
echo "packages: installing$missing"
run=""
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "packages: not root and no sudo; as root: apt-get install$missing" >&2; exit 1; }
	run=sudo
fi
# shellcheck disable=SC2086
if ! $run env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null; then
	$run apt-get update >/dev/null
	$run env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null
fi
