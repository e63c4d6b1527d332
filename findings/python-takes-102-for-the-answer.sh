#!/usr/bin/env bash
# requests 2.28.1 and urllib3 1.26.12 on Python 3.11 (Debian): `102 Processing`, which HTTP lets a server send before
# its answer, is taken for the answer; of interim responses http.client skips 100 alone.
# Guess: every 1xx is skipped, as RFC 9110 (15.2) demands of clients, "even if the client does not expect one".
# Seen on 2026-11-28: status 102, empty text, `ok` True; the 200 that follows is never read.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in python3-requests=2.28.1+dfsg-1 python3-urllib3=1.26.12-1+deb12u4; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
100 requests: 200 'done' True
100 urllib3: 200 b'done'
102 requests: 102 '' True
102 urllib3: 102 b''
EXPECTED
/usr/bin/python3 - >seen <<'PROGRAM'
import socket, threading
import requests, urllib3

server = socket.create_server(('127.0.0.1', 0))
url = 'http://127.0.0.1:%d/' % server.getsockname()[1]

def serve():
    for interim in (b'100 Continue', b'100 Continue', b'102 Processing', b'102 Processing'):
        connection, _ = server.accept()
        connection.recv(65536)
        answer = b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone'
        connection.sendall(b'HTTP/1.1 ' + interim + b'\r\n\r\n' + answer)
        connection.close()

threading.Thread(target=serve, daemon=True).start()
for interim in (100, 102):
    response = requests.get(url)
    print(interim, 'requests:', response.status_code, repr(response.text), response.ok)
    response = urllib3.PoolManager().request('GET', url)
    print(interim, 'urllib3:', response.status, response.data)
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
