#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the static library of one object whose own names are hidden, as the symbol map hides them in
# the shared one: a program's "ring_put" does not meet ours.
#
#   one_object.sh LD OBJCOPY AR MAP OUTPUT ARCHIVE...
set -eu
ld=$1 objcopy=$2 ar=$3 map=$4 output=$5
shift 5
object=$output.o
"$ld" -r --whole-archive -o "$object" "$@"
sed -n 's/^\t\(tb_[a-z_0-9]*\);$/\1/p' "$map" >"$output.names"
"$objcopy" --keep-global-symbols="$output.names" "$object"
rm -f "$output"
"$ar" rcs "$output" "$object"
rm -f "$object" "$output.names"
