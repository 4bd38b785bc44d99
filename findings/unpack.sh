# SPDX-License-Identifier: Apache-2.0
# For the scripts beside it: puts Debian packages of stated versions into a folder of their own, and compares what was
# seen with what is expected. The caller has `set -eu`. Nothing is installed; the folder is removed at the end.
#
#   unpack PACKAGE=VERSION...   these and all that they need; afterwards their programs and libraries are found
#   expect NAME FOUND EXPECTED  ends the script with status 1 if the behaviour has changed
#
# Exit status: 0 as described, 1 the behaviour has changed, 77 these versions cannot be downloaded here.

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root

unpack() {
	local needed
	mkdir -p "$root" "$folder/packages"
	: >"$folder/status" # as if nothing were installed
	needed=$(apt-get -qq --print-uris --no-install-recommends -o Dir::State::status="$folder/status" install "$@" \
		2>"$folder/words" | sed -n "s/^'[^']*' \([^_]*\)_\([^_]*\)_.*/\1=\2/p" | sed 's/%3a/:/g') || needed=
	if [ -z "$needed" ] || ! (cd "$folder/packages" && apt-get -qq download $needed) >>"$folder/words" 2>&1; then
		echo "skipped: $* cannot be downloaded: $(tail -n 1 "$folder/words")" >&2
		exit 77
	fi
	for package in "$folder"/packages/*.deb; do
		case ${package##*/} in
		libc6_* | libc-bin_*) ;; # the machine's loader needs the machine's libc
		*) dpkg-deb -x "$package" "$root" ;;
		esac
	done
	PATH=$root/usr/bin:$root/usr/sbin:$PATH
	LD_LIBRARY_PATH=$root/usr/lib/$(uname -m)-linux-gnu:$root/lib/$(uname -m)-linux-gnu
	export PATH LD_LIBRARY_PATH
	printf 'with %s\n' "$@"
}

expect() {
	printf '%s: %s\n' "$1" "$2"
	[ "$2" = "$3" ] || {
		echo "changed: $1: found '$2', expected '$3'" >&2
		exit 1
	}
}
