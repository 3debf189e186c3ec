# Archives and compressors, there and back. Works in the current folder, which has a folder `tree`.
set -eu
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='2020-01-01 00:00Z' --format=gnu -cf tree.tar tree
cksum tree.tar
for tool in "gzip -9n" "bzip2" "xz -T2 --block-size=1MiB" "zstd -q -T2 -9"; do
  name=${tool%% *}
  command -v "$name" >/dev/null || continue
  $tool -c <tree.tar >"tree.$name"
  cksum "tree.$name"
  $name -dc <"tree.$name" | cmp - tree.tar && echo "$name is back"
done
mkdir out
tar -xf tree.tar -C out
diff -r tree out/tree && echo same
