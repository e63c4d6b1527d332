#!/usr/bin/env bash
# openai 7.55.0 and @anthropic-ai/sdk 1.12.0 (npm): `Retry-After: 61` on a 429. openai ignores what is longer than a
# minute and repeats after half a second; its sibling of the same generator waits. Both obey `Retry-After: 2`.
# Guess: a longer wait is obeyed or ends the call at once, in both alike.
# Seen on 2026-11-28: requests within 3 s: openai 3 (61 s asked), 2 (2 s asked); anthropic 1, 2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  openai@7.55.0 @anthropic-ai/sdk@1.12.0 >/dev/null

cat >expected <<'EXPECTED'
openai, 61 s asked: 3
openai, 2 s asked: 2
anthropic, 61 s asked: 1
anthropic, 2 s asked: 2
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import Anthropic from '@anthropic-ai/sdk'
import { createServer } from 'node:http'
import OpenAI from 'openai'

const counts = {}
const server = createServer((request, response) => {
  const [, key, seconds] = request.url.split('/')
  counts[`${key}, ${seconds} s asked`] += 1
  response.writeHead(429, { 'content-type': 'application/json', 'retry-after': seconds }).end('{}')
}).listen(0, '127.0.0.1', async () => {
  for (const [key, seconds] of [['openai', 61], ['openai', 2], ['anthropic', 61], ['anthropic', 2]]) {
    counts[`${key}, ${seconds} s asked`] = 0
    const options = { baseURL: `http://127.0.0.1:${server.address().port}/${key}/${seconds}`, apiKey: 'none' }
    const body = { model: 'any', max_tokens: 9, messages: [{ role: 'user', content: 'Good evening.' }] }
    const { completions } = new OpenAI(options).chat
    const resource = key === 'openai' ? completions : new Anthropic(options).messages
    resource.create(body).catch(() => {})
  }
  await new Promise((resolve) => setTimeout(resolve, 3_000))
  for (const [key, count] of Object.entries(counts)) console.log(`${key}: ${count}`)
  process.exit()
})
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
