# SPDX-License-Identifier: Apache-2.0
# Many hosts on one machine, as network namespaces; to be sourced after
# common.sh.  Nothing outside the namespaces is changed.
#
#	netns_up N	hosts 0 to N-1, in namespaces $(netns_of I)
#	netns_v4 I, netns_v6 I	their addresses
#	on_host I COMMAND...	run there
#
# The bridge has a namespace of its own.  All namespaces share the host name,
# so a host's identity is LUNE_NODE, which on_host sets.

netns_base=lune$$
netns_count=0

netns_of() {
	echo "$netns_base-$1"
}

netns_v4() {
	echo "10.77.0.$(($1 + 1))"
}

netns_v6() {
	echo "fd77::$(($1 + 1))"
}

netns_down() {
	i=0
	while [ $i -lt "$netns_count" ]; do
		ip netns del "$(netns_of $i)" 2>/dev/null
		i=$((i + 1))
	done
	ip netns del "$netns_base-sw" 2>/dev/null
}

netns_host() {
	ns=$(netns_of "$1")
	ip netns add "$ns" &&
		ip -n "$ns" link set lo up &&
		ip -n "$ns" link add eth0 type veth peer name "p$1" \
			netns "$netns_base-sw" &&
		ip -n "$netns_base-sw" link set "p$1" master br0 up &&
		ip -n "$ns" addr add "$(netns_v4 "$1")/24" dev eth0 &&
		ip -n "$ns" addr add "$(netns_v6 "$1")/64" dev eth0 nodad &&
		ip -n "$ns" link set eth0 up
}

netns_up() {
	[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
	[ -n "$(command -v ip)" ] || skip "ip (iproute2) is not installed"
	ip netns add "$netns_base-sw" 2>/dev/null ||
		skip "network namespaces are not allowed here"
	cleanups="netns_down $cleanups"
	ip -n "$netns_base-sw" link add br0 type bridge 2>/dev/null &&
		ip -n "$netns_base-sw" link set br0 up ||
		skip "no network bridge here"
	while [ "$netns_count" -lt "$1" ]; do
		i=$netns_count
		netns_count=$((i + 1))
		netns_host "$i" || exit 99
	done
}

on_host() {
	host=$1
	shift
	ip netns exec "$(netns_of "$host")" env "LUNE_NODE=host$host" "$@"
}

# A start agent and host file for mpirun: use
#	mpirun_ranks N $(netns_mpirun SLOTS) -- PROGRAM...
netns_mpirun() {
	cat >"$work/agent" <<-'EOF'
		#!/bin/sh
		# mpirun calls: agent [options] address command...
		while :; do
			case $1 in
			-*) shift ;;
			*) break ;;
			esac
		done
		i=$((${1##*.} - 1))
		shift
		exec ip netns exec "NETNS-$i" env "LUNE_NODE=host$i" \
			sh -c "$*"
	EOF
	sed -i "s/NETNS/$netns_base/" "$work/agent"
	chmod +x "$work/agent"
	i=0
	: >"$work/hosts"
	while [ $i -lt "$netns_count" ]; do
		echo "$(netns_v4 $i) slots=$1" >>"$work/hosts"
		i=$((i + 1))
	done
	echo "--mca plm_rsh_agent $work/agent" \
		"--mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0" \
		"--hostfile $work/hosts"
}
