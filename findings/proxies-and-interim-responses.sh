#!/usr/bin/env bash
# caddy 2.6.2, varnish 7.1.1 and haproxy 2.6.12 (Debian) in front of a server that sends `102 Processing` before its
# 200, as HTTP allows as often as one likes.
# Guess: a proxy passes interim responses on or drops them, however many there are; the answer arrives.
# Seen on 2026-11-28: varnish answers 503 at the first, caddy 502 at the sixth, haproxy passes all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in caddy=2.6.2-5 varnish=7.1.1-2+deb12u1 haproxy=2.6.12-1+deb12u4; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
0: caddy 200 varnish 200 haproxy 200
1: caddy 200 varnish 503 haproxy 200
5: caddy 200 varnish 503 haproxy 200
6: caddy 502 varnish 503 haproxy 200
EXPECTED
chmod 755 . && printf 'vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "28501"; }\n' >default.vcl
printf '{\nadmin off\n}\nhttp://127.0.0.1:28502 {\nreverse_proxy 127.0.0.1:28501\n}\n' >Caddyfile
cat >haproxy.cfg <<'CONFIGURATION'
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
listen front
  bind 127.0.0.1:28504
  server only 127.0.0.1:28501
CONFIGURATION
cat >server.cjs <<'PROGRAM'
require('net').createServer((socket) => {
  socket.on('error', () => {}).once('data', (head) => {
    const count = Number(/^GET \/(\d)/.exec(head)[1])
    const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone'
    socket.end('HTTP/1.1 102 Processing\r\n\r\n'.repeat(count) + answer)
  })
}).listen(28501, '127.0.0.1')
PROGRAM
node server.cjs & pids=($!)
trap 'kill "${pids[@]}"; wait; rm -rf "$folder"' EXIT
HOME=$folder caddy run --config Caddyfile 2>/dev/null & pids+=($!)
varnishd -F -a 127.0.0.1:28503 -f "$folder/default.vcl" -n "$folder/varnish" -s malloc,10m -T none >varnish.log 2>&1 &
pids+=($!)
haproxy -f haproxy.cfg -db 2>/dev/null & pids+=($!)
ask() { curl -s -m 5 -o answer -w '%{http_code}' "http://127.0.0.1:$1/$2" || true; }
for port in 28502 28503 28504; do until [ "$(ask $port 0)" = 200 ]; do sleep 0.2; done; done
for count in 0 1 5 6; do
  echo "$count: caddy $(ask 28502 $count) varnish $(ask 28503 $count) haproxy $(ask 28504 $count)"
done >seen

diff --label expected --label seen -u expected seen
cat seen
