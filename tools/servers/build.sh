#!/usr/bin/env bash
# Builds servers that read what `hakmem metrics` serves, for tests/cli/test_servers.py: Parca, and an OpenTelemetry
# collector with the parts that packaging/monitoring/otel-collector.yaml names. Needs Go and its module proxy, takes
# some minutes of CPU time, and keeps the programs in build/servers.
#
#   tools/servers/build.sh [parca] [otelcol]
set -euo pipefail
cd "$(dirname "$0")/../.."
PARCA=github.com/parca-dev/parca@v0.20.0

into=$PWD/build/servers
here=$PWD/tools/servers
mkdir -p "$into"
export GOFLAGS="-mod=mod -buildvcs=false" GOBIN="$into"

# The module lacks the web page that is built by npm: an empty one stands for it.
build_parca() {
  local source=$into/parca-source
  rm -rf "$source"
  (cd "$into" && GOFLAGS="" go mod download "$PARCA")
  cp -r "$(go env GOMODCACHE)/$PARCA" "$source"
  chmod -R u+w "$source"
  mkdir -p "$source/ui/packages/app/web/build"
  echo '<!DOCTYPE html>' >"$source/ui/packages/app/web/build/index.html"
  # A library of it links to a symbol that newer Go versions keep to themselves.
  (cd "$source" && go build -ldflags=-checklinkname=0 -o "$into/parca" ./cmd/parca)
}

# In a copy: Go adds the indirect modules to go.mod.
build_otelcol() {
  rm -rf "$into/otelcol-source"
  cp -r "$here/otelcol" "$into/otelcol-source"
  (cd "$into/otelcol-source" && go build -o "$into/otelcol" .)
}

[ $# -gt 0 ] || set -- parca otelcol
for server in "$@"; do "build_$server"; done
