#!/bin/sh
# Writes the address that the probe calls, which Prometheus cannot read from the environment, and starts Prometheus.
set -eu
printf '[{ "targets": ["%s/readyz"] }]\n' "${PUBLIC_BASE_URL%/}" >/prometheus/probe.json
exec prometheus "$@"
