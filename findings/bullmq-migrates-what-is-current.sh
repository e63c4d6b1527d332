#!/usr/bin/env bash
# bullmq 6.7.0 (npm) on PostgreSQL 15 (Debian) with `migrate: true`: with nothing left to migrate it still alters its
# table at every start, for which PostgreSQL wants the table alone: a start waits for every open reader, a dump for one.
# Guess: the second start reads the stored version and changes nothing.
# Seen on 2026-11-28: the first and the second start alter `migration` alike.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in postgresql-15=15.18-0+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts bullmq@6.7.0 pg@8.23.1 >/dev/null

cat >expected <<'EXPECTED'
first:
ALTER TABLE migration ADD COLUMN IF NOT EXISTS min_client_version integer
ALTER TABLE migration ALTER COLUMN min_client_version SET NOT NULL
second:
ALTER TABLE migration ADD COLUMN IF NOT EXISTS min_client_version integer
ALTER TABLE migration ALTER COLUMN min_client_version SET NOT NULL
EXPECTED
as() { runuser -u postgres -- "$@"; }
mkdir data && chown postgres . data
as /usr/lib/postgresql/15/bin/initdb -D data -A trust -U queue >/dev/null
as /usr/lib/postgresql/15/bin/pg_ctl -D data -w -l data/log \
  -o "-p 28521 -k $folder/data -c listen_addresses=127.0.0.1 -c log_statement=all -c fsync=off" start >/dev/null
trap 'as /usr/lib/postgresql/15/bin/pg_ctl -D data -m immediate stop >/dev/null; rm -rf "$folder"' EXIT
node --input-type=module >seen <<'PROGRAM'
import * as bullmq from 'bullmq'
import { readFileSync } from 'node:fs'

const connectionString = 'postgres://queue@127.0.0.1:28521/postgres'
const altered = () => [...readFileSync('data/log', 'utf8').matchAll(/ALTER TABLE .*/g)].map(([statement]) => statement)
for (const start of ['first', 'second']) {
  const before = altered().length
  const connection = new bullmq.PostgresConnection({ connectionString, migrate: true })
  await connection.waitUntilReady()
  await connection.close()
  console.log(`${start}:\n${altered().slice(before).join('\n')}`)
}
process.exit()
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
