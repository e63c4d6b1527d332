#!/usr/bin/env bash
# nginx 1.22.1 (Debian): `proxy_buffer_size 16k` alone, the usual cure of "upstream sent too big header", is refused at
# start by a directive that the file does not have: its default grew with it beyond the default buffers.
# Guess: a larger buffer for the head needs no other line.
# Seen on 2026-11-28: 8k is accepted; 16k: "proxy_busy_buffers_size" must be less than the size of all "proxy_buffers".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in nginx=1.22.1-9+deb12u11; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
proxy_buffer_size 8k;
proxy_buffer_size 16k; "proxy_busy_buffers_size" must be less than the size of all "proxy_buffers" minus one buffer
proxy_buffer_size 16k; proxy_busy_buffers_size 24k;
EXPECTED
try() {
  echo "pid $folder/pid; error_log stderr; events {} http { access_log off; proxy_temp_path $folder/p;
    server { listen 127.0.0.1:1; location / { proxy_pass http://127.0.0.1:2; $1 } } }" >nginx.conf
  echo "$1 $(nginx -t -q -c "$folder/nginx.conf" 2>&1 | sed -n 's/.*\[emerg\] [0-9#: ]*//p' | sed 's/ in \/.*//')"
}
{
  try 'proxy_buffer_size 8k;'
  try 'proxy_buffer_size 16k;'
  try 'proxy_buffer_size 16k; proxy_busy_buffers_size 24k;'
} | sed 's/ $//' >seen

diff --label expected --label seen -u expected seen
cat seen
