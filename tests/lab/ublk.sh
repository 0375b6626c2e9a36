# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Jobs of the module on disks of ublk: the functions of jobs/kmod.sh, by another way to attach. Sourced after them;
# RBLK_LAB_WAY says ublk, over RDMA, or ublk-tcp, or nothing, for the module.
LAB_DISK=/dev/rblk LAB_SCHEME=rblk
lab_attached() { "$RBLK" list --attached --json | jq -r ".attached | $1"; }
# lab_losses DISK: how often it has lost a connection.
lab_losses() { lab_attached ".[] | select(.device == \"$1\").losses"; }
case ${RBLK_LAB_WAY:-} in ublk*) ;; *) return 0 ;; esac
LAB_DISK=/dev/ublkb
[ "$RBLK_LAB_WAY" = ublk ] || LAB_SCHEME=rblk+tcp

lab_facts() { "$RBLK" list --attached; }
lab_kmod_load() { :; }
lab_kmod_unload() { ! pgrep -x rblk-ublk && ! pgrep -x rblk-ublk-keep || lab_fail "a server is left"; }

# The words are the control device's.
lab_attach() {
	local word uri options=()
	for word in "${@:2}"; do
		case $word in
		queues=*) options+=(--queues "${word#*=}") ;;
		connect_ms=*) options+=(--connect-timeout "${word#*=}ms") ;;
		command_ms=*) options+=(--command-timeout "${word#*=}ms") ;;
		give_up_ms=*) options+=(--give-up "${word#*=}ms") ;;
		*) lab_fail "attach: $word?" ;;
		esac
	done
	uri=$LAB_SCHEME://${LAB_ADDR//,/,$LAB_SCHEME://}/$1
	LAB_DEV=$("$RBLK" attach --ublk "${options[@]}" "$uri" 2> /tmp/attach) || lab_fail "attach $uri: $(cat /tmp/attach)"
}
lab_detach() { "$RBLK" detach "$LAB_DEV" || lab_fail "detach $LAB_DEV"; }

# lab_servers: their processes, in the disks' order. Each disk is served by another than before.
lab_servers() { lab_attached '.[].server'; }
lab_followed() {
	[ "$(lab_attached 'all(.state == "live")')" = true ] && [ -z "$(grep -xF "$before" <(lab_servers))" ] &&
		[ "$(lab_servers | wc -l)" = "$(wc -l <<< "$before")" ]
}
fault_server() {
	local before
	before=$(lab_servers)
	# shellcheck disable=SC2086 # a word each
	kill -9 $before
	lab_wait 60 lab_followed || lab_broken "killed servers have no successors"
}
fault_upgrade() {
	local before
	before=$(lab_servers)
	"$RBLK" attach --take-over --all > /tmp/attach 2>&1 || lab_broken "take over: $(cat /tmp/attach)"
	lab_wait 60 lab_followed || lab_broken "disks are not taken over"
}
