#!/usr/bin/env bash
# netavark 1.4.0-3 (Debian 12, with Podman 4.3): a network's gateway moves when a container is removed. Needs root.
# Guess: a network's gateway keeps its hardware address, as Docker's bridges do.
# Seen on 2026-11-29: the bridge has the lowest address of the containers' interfaces, and another one as soon as that
# container is gone; its neighbors send to the old one until they ask again. In a composed system resolver and outside world
# were lost for up to 27 s at an update. Netavark sets it since the end of 2023 (pull request 833).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
apt-get download -qq netavark=1.4.0-3 2>/dev/null
dpkg-deb --extract netavark_*.deb .

cat >inside <<'INSIDE'
mount -t tmpfs tmpfs /run && mkdir /run/netns
settings() {
  cat <<JSON
{"container_id": "c$1", "container_name": "c$1",
 "networks": {"n": {"static_ips": ["10.99.0.$(($1 + 1))"], "interface_name": "eth0"}},
 "network_info": {"n": {"id": "aa", "name": "n", "driver": "bridge", "network_interface": "br0", "internal": true,
  "dns_enabled": false, "ipv6_enabled": false, "subnets": [{"gateway": "10.99.0.1", "subnet": "10.99.0.0/24"}],
  "ipam_options": {"driver": "host-local"}}}}
JSON
}
netavark() { settings "$2" | usr/lib/podman/netavark --config /run "$1" "/run/netns/c$2" >/dev/null; }
address() { ip -brief link show br0 | tr -s ' ' | cut -d ' ' -f 3; }
# An answer, though it refuses: then the neighbor knows where the gateway is.
known() {
  ip netns exec c1 bash -c '</dev/tcp/10.99.0.1/9' 2>/dev/null || true
  ip netns exec c1 ip neighbor show 10.99.0.1 | grep -o 'lladdr [0-9a-f:]*' | cut -d ' ' -f 2
}
add() { ip netns add "c$1" && netavark setup "$1"; }
add 1
first=$(address)
last=1
until [ "$(address)" != "$first" ]; do last=$((last + 1)) && add "$last"; done
neighbor=$(known)
[ "$neighbor" = "$(address)" ] && echo 'with all containers: where the neighbor sends to'
netavark teardown "$last"
[ "$neighbor" = "$(address)" ] || echo 'with one less: somewhere else'
INSIDE
cat >expected <<'EXPECTED'
with all containers: where the neighbor sends to
with one less: somewhere else
EXPECTED
unshare --net --mount bash -e inside >seen
diff expected seen && echo 'netavark 1.4.0: a gateway moves when a container is removed'
