#!/usr/bin/env bash
# bullmq 6.7.0 (npm) on PostgreSQL 15 (Debian): `addBulk` is one statement, but creates and drops two temporary tables in it:
# each call, also of one message, leaves dozens of dead rows in PostgreSQL's own catalogs, and a role that may not create
# temporary tables can add messages one by one only.
# Guess: one statement that inserts, with the rights of `add`, and less work than as many of those.
# Seen on 2026-11-30: a message writes no row of a catalog by `add` and 72 to 76 by `addBulk`; the role is
# refused.
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
add: 0 rows of catalogs a message
add, without the right to temporary tables: added
addBulk: more than 50 rows of catalogs a message
addBulk, without the right to temporary tables: permission denied to create temporary tables in database "postgres"
EXPECTED
as() { runuser -u postgres -- "$@"; }
mkdir data && chown postgres . data
as /usr/lib/postgresql/15/bin/initdb -D data -A trust -U queue >/dev/null
as /usr/lib/postgresql/15/bin/pg_ctl -D data -w -l data/log \
  -o "-p 28522 -k $folder/data -c listen_addresses=127.0.0.1 -c fsync=off -c autovacuum=off" start >/dev/null
trap 'as /usr/lib/postgresql/15/bin/pg_ctl -D data -m immediate stop >/dev/null; rm -rf "$folder"' EXIT
node --input-type=module >seen <<'PROGRAM'
import * as bullmq from 'bullmq'
import pg from 'pg'

const url = (role) => `postgres://${role}@127.0.0.1:28522/postgres`
const migrating = new bullmq.PostgresConnection({ connectionString: url('queue'), migrate: true })
await migrating.waitUntilReady()
await migrating.close()
const admin = new pg.Client(url('queue'))
await admin.connect()
const { Queue } = bullmq.withBackend(bullmq.createPostgresBackend)
const open = (role) => new Queue('letters', { connection: { connectionString: url(role) } })
const owner = open('queue')
await owner.add('letter', {})
await admin.query(`
  REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC;
  CREATE ROLE service LOGIN;
  GRANT USAGE, CREATE ON SCHEMA bullmq TO service;
  GRANT ALL ON ALL TABLES IN SCHEMA bullmq TO service;
  GRANT ALL ON ALL SEQUENCES IN SCHEMA bullmq TO service`)
const service = open('service')

/** Statistics are at most a second old. */
const written = async () => {
  await new Promise((resolve) => setTimeout(resolve, 1500))
  const { rows } = await admin.query('SELECT sum(n_tup_ins)::int AS rows FROM pg_stat_sys_tables')
  return rows[0].rows
}
const MESSAGES = 200
const ways = {
  add: (queue) => queue.add('letter', {}),
  addBulk: (queue) => queue.addBulk([{ name: 'letter', data: {} }]),
}
for (const [way, send] of Object.entries(ways)) {
  await send(owner)
  const before = await written()
  for (let count = 0; count < MESSAGES; count += 1) await send(owner)
  const rows = Math.round(((await written()) - before) / MESSAGES)
  console.log(`${way}: ${rows > 50 ? 'more than 50' : rows} rows of catalogs a message`)
  const answer = await send(service).then(() => 'added', ({ message }) => message)
  console.log(`${way}, without the right to temporary tables: ${answer}`)
}
process.exit()
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
