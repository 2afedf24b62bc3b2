#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the distribution packages that building and testing need, and those given as arguments; asks for sudo only when one is
# missing. Two of these at once take turns, and wait for any other user of apt.
set -eu
PACKAGES="gcc libc6-dev make flex bison bc patch xz-utils iproute2 python3-venv ca-certificates clang libclang-rt-dev libbpf-dev
 pkg-config libcmocka-dev procps ethtool${*:+ $*}"
WAIT_S=600
# Elsewhere than on Debian: its keys, to verify what comes from DCGYM_DEBIAN_ARCHIVE.
grep -q '^ID=debian' /etc/os-release || PACKAGES="$PACKAGES debian-archive-keyring"

command -v dpkg-query >/dev/null || { echo "packages: no dpkg on this machine; install by hand: $PACKAGES" >&2; exit 0; }
if [ -w "$0" ]; then exec 9>>"$0"; else exec 9<"$0"; fi # NFS locks only what is open for writing
flock 9
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
apt() {
	$run env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=$WAIT_S "$@" >/dev/null
}
# shellcheck disable=SC2086
if ! apt install -y --no-install-recommends $missing 2>/dev/null; then # the lists may be old, or not there
	apt update
	apt install -y --no-install-recommends $missing
fi
