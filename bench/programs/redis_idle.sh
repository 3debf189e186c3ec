#!/bin/sh
# A load for a redis server that is idle most of the time: it is filled, rests, is emptied, rests; all of it twice.
# The server's port is the one argument.
set -eu
for round in 1 2; do
  redis-benchmark -h 127.0.0.1 -p "$1" -q -n 60000 -r 100000 -d 300 -P 16 -c 20 -t set,lpush,hset
  sleep 0.5
  redis-cli -h 127.0.0.1 -p "$1" flushall sync
  sleep 1
done
