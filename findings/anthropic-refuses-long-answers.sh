#!/usr/bin/env bash
# @anthropic-ai/sdk 1.12.0 (npm): `messages.create` without streaming throws for `max_tokens` above 21,333, before any
# request and synchronously, so that `.catch()` never sees it; with an explicit `timeout` the same call is sent.
# Guess: the service decides what it takes, and a function that returns a promise rejects it.
# Seen on 2026-11-28: 21,333 sent, 21,334 thrown at the call, 21,334 with timeout sent.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts @anthropic-ai/sdk@1.12.0 >/dev/null

cat >expected <<'EXPECTED'
21333: 1 requests, no throw
21334: 0 requests, thrown at the call: Streaming is required for operations that may take longer than 10 minutes
21334 with timeout: 1 requests, no throw
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import Anthropic from '@anthropic-ai/sdk'

let requests = 0
const fetch = async () => {
  requests += 1
  return Response.json({ content: [] })
}
const client = new Anthropic({ apiKey: 'none', fetch })
const messages = [{ role: 'user', content: 'Good evening.' }]
for (const [tokens, options] of [[21_333], [21_334], [21_334, { timeout: 600_000 }]]) {
  requests = 0
  let outcome = 'no throw'
  try {
    await client.messages.create({ model: 'any', max_tokens: tokens, messages }, options).catch(() => 'rejected')
  } catch (error) {
    outcome = `thrown at the call: ${error.message.split('.')[0]}`
  }
  console.log(`${tokens}${options ? ' with timeout' : ''}: ${requests} requests, ${outcome}`)
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
