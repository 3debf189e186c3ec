# A server on a socket of its own, a fixed conversation, a snapshot by a forked child, a short load; prints what can be
# compared. Works in the current folder.
set -eu
redis-server --port 0 --unixsocket socket --save '' --dir "$PWD" --enable-debug-command yes >log 2>errors &
server=$!
ask() { redis-cli -s socket "$@"; }
tries=0
until ask ping >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 200 ] || { echo "the server does not answer"; cat log errors; exit 1; }
  sleep 0.05
done
number=0
while [ "$number" -lt 3000 ]; do
  number=$((number + 1))
  echo "SET key:$number value:$((number * 7919 % 10007))"
  echo "LPUSH list:$((number % 10)) $number"
  echo "ZADD ranking $((number * 31 % 1009)) member:$number"
  echo "HSET hash:$((number % 50)) field:$number $number"
  echo "APPEND text:$((number % 20)) $number-"
  [ $((number % 3)) -ne 0 ] || echo "DEL key:$number"
done | ask >answers
sort answers | uniq -c | sort -rn | sed 5q
ask dbsize
ask zrange ranking 0 5 withscores
ask debug digest
ask bgsave
while ask info persistence | grep -q 'rdb_bgsave_in_progress:1'; do sleep 0.05; done
ask info persistence | grep 'rdb_last_bgsave_status'
ask debug reload
ask debug digest
redis-benchmark -s socket -n 10000 -c 20 -P 4 -q -t set,get,lpush,lpop,sadd,zadd,hset >benchmark
grep -c 'requests per second' benchmark || true
ask shutdown nosave || true
wait "$server"
echo "server ended with $?"
cat errors
