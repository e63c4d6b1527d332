#!/usr/bin/env bash
# openai 7.55.0 and @anthropic-ai/sdk 1.12.0 (npm): `Retry-After: 61` on a 429. openai ignores what is longer than a
# minute and repeats after half a second; its sibling of the same generator waits. Both obey `Retry-After: 2`.
# Guess: a longer wait is obeyed or ends the call at once, in both alike.
# Seen on 2026-11-28: openai repeats in less than 2 s where 61 are asked, after 2 s where 2 are; anthropic not within 7 s,
# and after 2 s.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  openai@7.55.0 @anthropic-ai/sdk@1.12.0 >/dev/null

cat >expected <<'EXPECTED'
openai, 61 s asked: in less than 2 s
openai, 2 s asked: after 2 s
anthropic, 61 s asked: not within 7 s
anthropic, 2 s asked: after 2 s
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import Anthropic from '@anthropic-ai/sdk'
import { createServer } from 'node:http'
import OpenAI from 'openai'

const times = {}
const server = createServer((request, response) => {
  const [, key, seconds] = request.url.split('/')
  times[`${key}, ${seconds} s asked`].push(performance.now())
  response.writeHead(429, { 'content-type': 'application/json', 'retry-after': seconds }).end('{}')
}).listen(0, '127.0.0.1', async () => {
  for (const [key, seconds] of [['openai', 61], ['openai', 2], ['anthropic', 61], ['anthropic', 2]]) {
    times[`${key}, ${seconds} s asked`] = []
    const options = { baseURL: `http://127.0.0.1:${server.address().port}/${key}/${seconds}`, apiKey: 'none' }
    const body = { model: 'any', max_tokens: 9, messages: [{ role: 'user', content: 'Good evening.' }] }
    const { completions } = new OpenAI(options).chat
    const resource = key === 'openai' ? completions : new Anthropic(options).messages
    resource.create(body).catch(() => {})
  }
  await new Promise((resolve) => setTimeout(resolve, 7_000))
  for (const [key, [first, second]] of Object.entries(times))
    console.log(`${key}: ${!second ? 'not within 7 s' : second - first < 1_900 ? 'in less than 2 s' : 'after 2 s'}`)
  process.exit()
})
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
