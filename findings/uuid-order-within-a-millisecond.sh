#!/usr/bin/env bash
# uuid 14.0.3 (npm) and node 24.21.0 (npm): ids of version 7 that are made one after the other within one millisecond.
# Guess: they sort as they were made, as those of uuid's `v7()` do by a counter, whatever supplies the random bytes.
# Seen on 2026-11-30: only `v7()` without options does; with `random` or `rng`, which its documentation lists beside `seq`
# as sources of bytes, the counter is left out, and Node's own `crypto.randomUUIDv7()` (since 24.16) has none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund uuid@14.0.3 node@24.21.0 >/dev/null

cat >expected <<'EXPECTED'
uuid v7(): in order
uuid v7({ random }): in no order
uuid v7({ rng }): in no order
node randomUUIDv7(): in no order
EXPECTED
cat >program.mjs <<'PROGRAM'
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { v7 } from 'uuid'

const MAKERS = {
  'uuid v7()': () => v7(),
  'uuid v7({ random })': () => v7({ random: randomBytes(16) }),
  'uuid v7({ rng })': () => v7({ rng: () => randomBytes(16) }),
  'node randomUUIDv7()': () => randomUUIDv7(),
}
for (const [name, make] of Object.entries(MAKERS)) {
  const ids = Array.from({ length: 10_000 }, make)
  console.log(`${name}: ${ids.every((id, index) => index === 0 || ids[index - 1] < id) ? 'in order' : 'in no order'}`)
}
PROGRAM
node_modules/.bin/node program.mjs >seen

diff --label expected --label seen -u expected seen
cat seen
