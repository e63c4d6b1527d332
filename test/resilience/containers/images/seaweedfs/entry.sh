# Ceph's gateway on one store below /data, in place of SeaweedFS: the same port, keys and path of its health check.
set -eu
fsid=11111111-2222-4333-8444-555555555555
cat > /etc/ceph/ceph.conf <<CONF
[global]
fsid = $fsid
mon host = v1:127.0.0.1:6789
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
keyring = /dev/null
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
paxos propose interval = 0.1
osd objectstore = bluestore
bluestore block size = 2147483648
bluestore cache autotune = false
bluestore cache size = 67108864
mon data = /data/mon
osd data = /data/osd
run dir = /run
admin socket =
pid file =
log file = /var/log/\$name.log
mon cluster log file = /var/log/cluster.log
rgw frontends = beast endpoint=127.0.0.1:8000
CONF
if [ ! -e /data/made ]; then
  rm -rf /data/mon /data/osd
  mkdir -p /data/mon /data/osd
  monmaptool --create --clobber --addv a '[v1:127.0.0.1:6789]' --fsid $fsid /tmp/monmap
  ceph-mon -i a --mkfs --monmap /tmp/monmap
  ceph-mon -i a
  until ceph osd create 66666666-2222-4333-8444-555555555555; do sleep 0.2; done
  ceph-osd -i 0 --mkfs --osd-uuid 66666666-2222-4333-8444-555555555555
  ceph-osd -i 0
  until radosgw-admin user create --uid owner --display-name owner --access-key "$AWS_ACCESS_KEY_ID" \
    --secret-key "$AWS_SECRET_ACCESS_KEY" || radosgw-admin user info --uid owner; do sleep 1; done
  touch /data/made
else
  ceph-mon -i a
  ceph-osd -i 0
fi
caddy start --config /Caddyfile --adapter caddyfile
exec radosgw -f -n client.rgw
