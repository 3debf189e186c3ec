# A small history: commits, a branch, a merge, a rename, packing. Works in the current folder.
set -eu
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME="$PWD" GIT_PAGER=cat
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='1600000000 +0000' GIT_COMMITTER_DATE='1600000000 +0000'
git init -q -b main repository
cd repository
number=0
while [ "$number" -lt 40 ]; do
  number=$((number + 1))
  seq 1 $((number * 50)) | sed "s/7/$number/" >"file$((number % 12))"
  git add .
  git commit -q -m "change $number"
done
git checkout -q -b side HEAD~20
echo side >side
git add side
git commit -q -m side
git checkout -q main
git merge -q -m merge side
git mv file1 moved
git commit -q -m move
git repack -q -a -d --threads=2
git gc -q
git fsck --strict
git log --stat --oneline --graph | cat
git diff HEAD~5 | cat
git blame file3 | sed 20q
git grep -c 1234 HEAD || true
git rev-parse HEAD
