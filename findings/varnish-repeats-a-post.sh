#!/usr/bin/env bash
# varnish 7.1.1 (Debian): a POST without a body over a kept connection, which the server closes without an answer, is
# sent once more by itself: one request of a client reaches the server twice. One with a body is not repeated.
# Guess: only what RFC 9110 (9.2.2) calls idempotent is repeated by a proxy on its own; the client gets a 503.
# Seen on 2026-11-28: without a body 200 and two requests at the server; with one 503 and one request.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in varnish=7.1.1-2+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
without a body: 200, reached the server 2 times
with a body: 503, reached the server 1 times
EXPECTED
chmod 755 . && printf 'vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "28511"; }\n' >default.vcl
cat >server.cjs <<'PROGRAM'
const { appendFileSync } = require('fs')
const dropped = new Set()
require('net').createServer((socket) => {
  let answers = 0
  socket.on('error', () => {}).on('data', (head) => {
    const path = /^\w+ (\S+)/.exec(head)[1]
    appendFileSync('requests', `${path}\n`)
    if (path !== '/ready' && answers > 0 && !dropped.has(path)) return dropped.add(path) && socket.end()
    answers += 1
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone')
  })
}).listen(28511, '127.0.0.1')
PROGRAM
node server.cjs & pids=($!)
trap 'kill "${pids[@]}"; wait; rm -rf "$folder"' EXIT
varnishd -F -a 127.0.0.1:28512 -f "$folder/default.vcl" -n "$folder/varnish" -s malloc,10m -T none >varnish.log 2>&1 &
pids+=($!)
post() { curl -s -m 5 -o answer -w '%{http_code}' -X POST "${@:2}" "http://127.0.0.1:28512$1" || true; }
ready() { until [ "$(post /ready)" = 200 ]; do sleep 0.2; done; }
{
  ready && echo "without a body: $(post /empty), reached the server $(grep -c /empty requests) times"
  ready && echo "with a body: $(post /body -d '{}'), reached the server $(grep -c /body requests) times"
} >seen

diff --label expected --label seen -u expected seen
cat seen
