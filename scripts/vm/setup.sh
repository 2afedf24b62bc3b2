#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Finishes the machine image, as root in its own root directory, without a network: scripts/vm_root.py calls it there.
# The folder of this script has wheels/ and is removed at the end.
set -eu
umask 022
HERE=$(dirname "$0")

# Nobody has a password before the first boot, when secret.service makes the student's.
useradd --uid 1000 --user-group --no-create-home --home-dir /home/student --shell /bin/bash --groups sudo,adm student
passwd --quiet --lock root
cp /etc/skel/.[!.]* /home/student/
chown -R student:student /home/student

python3 -m venv /opt/dcgym
/opt/dcgym/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-index --find-links "$HERE/wheels" \
	dc-gym $(sed '/^#/d' "$HERE/requirements.in")

: >/etc/motd # scripts/vm/files has what a login shows
rm -f /etc/update-motd.d/10-uname
systemctl --quiet enable systemd-networkd systemd-resolved secret ssh-keys ssh notebook
systemctl --quiet mask systemd-networkd-wait-online apt-daily.timer apt-daily-upgrade.timer
rm -f /etc/ssh/ssh_host_*
# The first boot makes them again: each copy of the image has its own.
rm -f /var/lib/systemd/random-seed /var/lib/dbus/machine-id
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/*.log /var/log/apt /var/cache/ldconfig/aux-cache "$HERE"
