# SPDX-License-Identifier: Apache-2.0
# dcgym, and what dcgym conformance calls: tc, sysctl, ethtool.
PATH=/opt/dcgym/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin
# What a login shows; the student alone may read the secret.
case $- in
*i*)
	if [ -r /var/lib/dcgym/secret ]; then
		read -r secret </var/lib/dcgym/secret || : # it has no newline
		echo "The notebook server shows files and pictures: http://localhost:8888/lab?token=$secret in your own browser."
		echo "User student, password $secret (sudo and ssh ask for it)."
		echo
		unset secret
	fi
	;;
esac
