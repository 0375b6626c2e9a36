# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A system for the examples of the manuals: /etc, /srv, /run and /var/lib are the test's, the user rblk is there,
# tests/install/systemctl stands for systemd, and the programs are in PATH. Sourced behind cmd.sh, in network and mount
# namespaces of the test's own.
#   manual_system UNITS...          UNITS: the unit files of the build
manual_system() {
	local here folder path
	here=$(dirname "${BASH_SOURCE[0]}")
	mkdir "$scratch/etc" "$scratch/units" "$scratch/bin" "$scratch/log"
	cp -a /etc/. "$scratch/etc/"
	rm -rf "$scratch/etc/rblk"
	mkdir "$scratch/etc/rblk"
	echo "127.0.0.1 localhost storage1" > "$scratch/etc/hosts"
	mount --bind "$scratch/etc" /etc
	systemd-sysusers "$here/../../target/install/rblkd.sysusers" || fail "no user rblk"
	mkdir -p /etc/tmpfiles.d && cp "$here/../../target/install/rblkd.tmpfiles" /etc/tmpfiles.d/rblkd.conf
	mkdir "$scratch/srv" "$scratch/run" "$scratch/lib"
	mkdir "$scratch/srv/rblk" # as systemd-tmpfiles makes it when the package is installed
	for folder in srv run lib; do
		case $folder in lib) path=/var/lib ;; *) path=/$folder ;; esac
		mount --bind "$scratch/$folder" "$path"
	done
	ip link set lo up
	cp "$@" "$scratch/units/"
	# User rblk may not be able to enter the build folder.
	chmod 755 "$scratch"
	cp "$RBLKD" "$scratch/bin/rblkd"
	sed -i "s|^ExecStart=[^ ]*/rblkd|ExecStart=$scratch/bin/rblkd|" "$scratch/units/rblkd.service"
	sed -i "s|^ExecReload=[^ ]*/rblkctl|ExecReload=$RBLKCTL|" "$scratch/units/rblkd.service"
	ln -s "$RBLK" "$scratch/bin/rblk"
	ln -s "$RBLKCTL" "$scratch/bin/rblkctl"
	ln -s "$(realpath "$here/../install/systemctl")" "$scratch/bin/systemctl"
	export PATH=$scratch/bin:$PATH STAND_IN_UNITS=$scratch/units STAND_IN_LOG=$scratch/target.log STAND_IN_CALLS=$scratch/calls
	# What is left running ends with the test, or ctest would wait for it.
	trap 'kill $(jobs -p) 2> /dev/null || true; systemctl stop rblkd.service || true; rm -rf --one-file-system "$scratch"' EXIT
}
