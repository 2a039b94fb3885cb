#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts the shim on a node, checks it, takes it off again. See usage below.
set -eu

usage() {
	cat <<'USAGE'
usage: install.sh install|verify|remove [option...]

  install  copy the programs, write the node's config.toml if there is none, and
           add the handler "sedna" to containerd's configuration; running it
           again changes only what differs
  verify   check that containerd reads the handler with its annotations
  remove   take the handler and the programs away; config.toml stays

  --from DIR        where the programs are (../bin beside this script)
  --to DIR          where they go (/usr/local/bin)
  --config FILE     containerd's configuration (/etc/containerd/config.toml, or
                    the template of k3s and rke2 where that is found)
  --containerd CMD  the node's containerd, asked what it reads (containerd)
  --root DIR        work below DIR, as for an image of a node
  --restart         restart containerd at the end, by systemctl

Exit codes: 0 done, 1 failed, 2 wrong usage.
USAGE
}

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

misused() {
	echo "install.sh: $*" >&2
	usage >&2
	exit 2
}

programs="containerd-shim-sedna-v1 sedna-storage"
begin="# sedna: begin, written by install.sh"
end="# sedna: end"
here=$(cd "$(dirname "$0")" && pwd)
from=$here/../bin to=/usr/local/bin config='' containerd=containerd root='' restart=false

[ $# -gt 0 ] || misused "say install, verify or remove"
verb=$1
shift
while [ $# -gt 0 ]; do
	case $1 in
	--restart) restart=true ;;
	--help) usage && exit 0 ;;
	--from | --to | --config | --containerd | --root)
		[ $# -gt 1 ] || misused "$1 needs a value"
		case $1 in
		--from) from=$2 ;;
		--to) to=$2 ;;
		--config) config=$2 ;;
		--containerd) containerd=$2 ;;
		--root) root=${2%/} ;;
		esac
		shift
		;;
	*) misused "unknown option $1" ;;
	esac
	shift
done
temporary=''
trap '[ -z "$temporary" ] || rm -f "$temporary"' EXIT
trap 'exit 1' HUP INT TERM

# find_config names the file that an operator of this node would edit. k3s and
# rke2 write containerd's configuration anew at each start, from a template
# (https://docs.k3s.io/advanced#configuring-containerd).
find_config() {
	for dir in /var/lib/rancher/k3s/agent/etc/containerd /var/lib/rancher/rke2/agent/etc/containerd; do
		[ -f "$root$dir/config.toml" ] || continue
		case $(version_of "$root$dir/config.toml") in
		1 | 2) echo "$root$dir/config.toml.tmpl" ;;
		*) echo "$root$dir/config-v3.toml.tmpl" ;;
		esac
		return
	done
	echo "$root/etc/containerd/config.toml"
}

# version_of prints the version of a configuration: its own, 1 when it has
# content without a version, nothing when it has no content.
version_of() {
	[ -f "$1" ] || return 0
	awk '
		/^[ \t]*version[ \t]*=/ { v = $0; sub(/^[^=]*=[ \t]*/, "", v); sub(/[^0-9].*/, "", v); print v; found = 1; exit }
		/^[ \t]*(#|$)/ { next }
		{ content = 1 }
		/^[ \t]*\[/ { exit }
		END { if (content && !found) print 1 }
	' "$1"
}

# fresh_version is for a node without a configuration: the newest form that
# every containerd of its line reads.
fresh_version() {
	said=$("$containerd" --version) || fail "can't run $containerd: name the node's containerd by --containerd"
	case $said in
	*" v1."* | *" 1."*) echo 2 ;;
	*) echo 3 ;;
	esac
}

# block prints the handler for a version of the configuration.
block() {
	case $1 in
	2) source=$here/containerd-config-v2.toml ;;
	*) source=$here/containerd-config-v3.toml ;;
	esac
	echo "$begin"
	sed -e '/^version *=/d' -e '/^#/d' -e '/./,$!d' "$source"
	echo "$end"
}

# without_block prints a configuration without what an earlier run has added.
without_block() {
	[ -f "$1" ] || return 0
	awk -v begin="$begin" -v end="$end" '
		$0 == begin { inside = 1; next }
		$0 == end { inside = 0; next }
		!inside { lines[++n] = $0 }
		END {
			while (n > 0 && lines[n] == "") n--
			for (i = 1; i <= n; i++) print lines[i]
		}
	' "$1"
}

# check_marks refuses a configuration where it can't be told what an earlier run
# has added: the rest of the file would go with it.
check_marks() {
	[ -f "$1" ] || return 0
	awk -v begin="$begin" -v end="$end" '
		$0 == begin { if (inside) odd = 1; inside = 1 }
		$0 == end { if (!inside) odd = 1; inside = 0 }
		END { exit (odd || inside) }
	' "$1" || fail "$1 has \"$begin\" without \"$end\" after it, or the other way round: remove what is left of the handler by hand"
}

# handler_in prints what is wrong with the handler in a `config dump` on stdin;
# nothing if all is well.
handler_in() {
	awk '
		{ gsub(/\047/, "\"") }
		/^[ \t]*disabled_plugins[ \t]*=/ && /"(cri|io\.containerd\.grpc\.v1\.cri|io\.containerd\.cri\.v1\.runtime)"/ { disabled = 1 }
		/^[ \t]*version[ \t]*=/ { version = $3 }
		/^[ \t]*\[/ { table = $0; gsub(/[ \t"]/, "", table) }
		{
			want = version == 2 ? "io.containerd.grpc.v1.cri" : "io.containerd.cri.v1.runtime"
			handler = "[plugins." want ".containerd.runtimes.sedna"
		}
		table == handler "]" {
			found = 1
			if ($1 == "runtime_type" && /"io\.containerd\.sedna\.v1"/) type = 1
			if ($1 == "pod_annotations" && /"storage\.sedna\.io\/\*"/) pod = 1
			if ($1 == "container_annotations" && /"storage\.sedna\.io\/\*"/) container = 1
		}
		table == handler ".options]" && $1 == "ConfigPath" { options = 1 }
		END {
			if (disabled) print "the CRI plugin is in disabled_plugins: take it out"
			else if (!found) print "no runtime handler \"sedna\" in its tables for the CRI"
			else if (!type) print "handler \"sedna\" has another runtime_type than io.containerd.sedna.v1"
			else if (!pod || !container) print "handler \"sedna\" does not pass storage.sedna.io/* in pod_annotations and container_annotations: pods would start without their data"
			else if (!options) print "handler \"sedna\" has no ConfigPath in its options"
		}
	'
}

# check asks containerd itself what it reads in a file.
check() {
	dump=$("$containerd" --config "$1" config dump) || fail "$containerd can't read $1"
	wrong=$(printf '%s\n' "$dump" | handler_in)
	[ -z "$wrong" ] || fail "$2: $wrong"
}

is_template() {
	case $1 in *.tmpl) true ;; *) false ;; esac
}

# draft makes the file that will replace another, with its owner and mode.
draft() {
	mkdir -p "$(dirname "$1")"
	temporary=$1.sedna-new
	if [ -f "$1" ]; then cp -p "$1" "$temporary"; else : >"$temporary" && chmod 0644 "$temporary"; fi
}

# put replaces a file by its draft, and keeps the first original.
put() {
	if [ -f "$1" ] && cmp -s "$1" "$temporary"; then
		rm -f "$temporary"
		echo "$1 is as it should be"
		return
	fi
	if [ -f "$1" ] && [ ! -f "$1.before-sedna" ]; then cp -p "$1" "$1.before-sedna"; fi
	mv "$temporary" "$1"
	echo "$1 is written"
}

install_programs() {
	for program in $programs; do
		[ -f "$from/$program" ] || fail "$from/$program is missing: run \`make build\`, or name its folder by --from"
	done
	mkdir -p "$root$to"
	for program in $programs; do
		# A program that runs can be replaced, not overwritten.
		cp "$from/$program" "$root$to/.$program.new"
		chmod 0755 "$root$to/.$program.new"
		mv "$root$to/.$program.new" "$root$to/$program"
	done
	echo "$programs are in $root$to"
	[ -x "$root$to/runsc" ] || [ -n "$root" ] || command -v runsc >/dev/null ||
		echo "install.sh: runsc isn't on PATH: install gVisor, https://gvisor.dev/docs/user_guide/install/" >&2
}

install_config() {
	node=$root/etc/containerd/sedna/config.toml
	if [ -f "$node" ]; then
		echo "$node stays as it is"
		return
	fi
	draft "$node"
	cat "$here/config.toml" >"$temporary"
	put "$node"
}

install_handler() {
	if is_template "$config"; then
		case $config in *-v3.toml.tmpl) version=3 ;; *) version=2 ;; esac
	else
		version=$(version_of "$config")
	fi
	[ -n "$version" ] || version=$(fresh_version)
	[ "$version" -gt 1 ] || fail "$config is of version 1 or says none, which has no place for annotations: write it anew by \`containerd config migrate\`"
	check_marks "$config"
	old=$(without_block "$config")
	if printf '%s\n' "$old" | grep -Eq "^[[:space:]]*\[plugins\..*runtimes\.[\"']?sedna[\"']?\]"; then
		fail "$config has a handler \"sedna\" that someone wrote by hand: remove it first"
	fi
	draft "$config"
	{
		if [ -z "$(version_of "$config")" ] && ! is_template "$config"; then printf 'version = %s\n\n' "$version"; fi
		if [ -n "$old" ]; then printf '%s\n\n' "$old"; elif is_template "$config"; then printf '{{ template "base" . }}\n\n'; fi
		block "$version"
	} >"$temporary"
	# What a template becomes only its program can say.
	is_template "$config" || check "$temporary" "$config would not work"
	put "$config"
}

restart_containerd() {
	if ! $restart; then
		echo "restart containerd (k3s, rke2: that service)$1"
		return
	fi
	systemctl restart containerd || fail "containerd didn't start again: journalctl -u containerd; the configuration before is $config.before-sedna"
}

# verify trusts nothing that was written, only what containerd says: a table in
# the format of another version is ignored without a word.
verify() {
	file=$config
	if is_template "$file"; then file=$(dirname "$file")/config.toml; fi
	[ -f "$file" ] || fail "$file is missing"
	check "$file" "$file"
	for program in $programs; do
		[ -x "$root$to/$program" ] || fail "$root$to/$program is missing"
	done
	echo "containerd reads handler sedna and its annotations from $file"
	if [ -n "$root" ] || ! command -v crictl >/dev/null || ! crictl version >/dev/null 2>&1; then
		echo "crictl can't ask a running containerd here: check there that \`crictl info\` lists sedna"
		return
	fi
	crictl info | grep -q '"sedna"' || fail "the running containerd doesn't know handler sedna: restart it"
	echo "the running containerd knows it"
}

# in_use says whether a pod's shim runs, of this or an earlier installation:
# containerd needs the program to clean up after it.
in_use() {
	for exe in /proc/[0-9]*/exe; do
		case $(readlink "$exe" 2>/dev/null) in
		"$root$to/containerd-shim-sedna-v1"*) return 0 ;;
		esac
	done
	return 1
}

remove() {
	if in_use; then fail "pods of this handler still run here: delete them first"; fi
	if [ -f "$config" ]; then
		check_marks "$config"
		draft "$config"
		without_block "$config" >"$temporary"
		put "$config"
	fi
	for program in $programs; do rm -f "$root$to/$program"; done
	echo "$root/etc/containerd/sedna and $root/var/lib/sedna stay: remove them when no pod needs them"
}

if [ -z "$config" ]; then config=$(find_config); else config=$root$config; fi
if [ -L "$config" ]; then
	link=$config
	config=$(readlink -f "$link") || fail "$link leads nowhere"
	# An absolute link of an image means a file of the image, not of this machine.
	case $config in
	"$(readlink -f "$root/" | sed 's,^/$,,')"/*) ;;
	*) fail "$link leads out of $root: name the file itself by --config" ;;
	esac
fi
case $verb in
install)
	install_programs
	install_config
	install_handler
	restart_containerd ", then run: install.sh verify"
	;;
verify) verify ;;
remove)
	remove
	restart_containerd ""
	;;
--help | help) usage ;;
*) misused "unknown command $verb" ;;
esac
