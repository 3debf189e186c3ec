#!/usr/bin/env bash
# Removes what `cmake --install BUILD --prefix PREFIX` installs: `make uninstall`. An installation into an empty folder
# lists the files, because BUILD/install_manifest.txt has only those of the last one, and none of the links.
#
#   [DESTDIR=FOLDER] tools/uninstall.sh BUILD PREFIX
set -euo pipefail
build=$1
prefix=$(realpath -ms "$2")

image=$(mktemp -d)
trap 'rm -rf "$image"' EXIT
rm -f "$build/install_manifest.txt" # after `sudo make install` it is root's, and cmake does not replace it
DESTDIR=$image cmake --install "$build" --prefix "$prefix" >/dev/null

removed=0
while IFS= read -r -d '' file; do
  place=${DESTDIR:-}${file#"$image"}
  if [ -e "$place" ] || [ -L "$place" ]; then
    rm -f -- "$place"
    removed=$((removed + 1))
  fi
done < <(find "$image" ! -type d -print0)

# Folders of hakmem's own, and what Python has written there.
own=(-name hakmem -o -path './*/hakmem/*' -o -path './*/gdb/auto-load/*')
while IFS= read -r -d '' folder; do
  place=${DESTDIR:-}$prefix/$folder
  [ -d "$place" ] || continue
  rm -rf -- "$place/__pycache__"
  rmdir --ignore-fail-on-non-empty -- "$place"
done < <(cd "$image$prefix" && find . -depth -mindepth 1 -type d \( "${own[@]}" \) -print0)
echo "removed $removed files below ${DESTDIR:-}$prefix"
