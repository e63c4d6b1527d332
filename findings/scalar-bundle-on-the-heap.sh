#!/usr/bin/env bash
# @scalar/fastify-api-reference 1.72.1 (npm): its browser bundle is a string literal inside the server's module.
# Guess: a file that is read or streamed when a browser asks for it. In fact every process that imports the plugin pays for
# the whole bundle at its start: a character outside of Latin-1 makes V8 keep it, and the module's source, with two bytes each.
# Seen on 2026-11-29 with Node 20 and 24: importing the plugin adds 21 MB, for 4.4 MB of script that nobody has asked for.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts @scalar/fastify-api-reference@1.72.1 >/dev/null

cat >expected <<'EXPECTED'
more than four times the bundle is in memory after the import
EXPECTED
node --expose-gc --input-type=module >seen <<'PROGRAM'
import { statSync } from 'node:fs'

const used = () => {
  for (let round = 0; round < 3; round += 1) gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
const before = used()
await import('@scalar/fastify-api-reference')
const times = (used() - before) / statSync('node_modules/@scalar/fastify-api-reference/dist/index.js').size
console.log(`${times > 4 ? 'more' : 'not more'} than four times the bundle is in memory after the import`)
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
