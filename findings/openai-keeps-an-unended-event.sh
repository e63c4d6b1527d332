#!/usr/bin/env bash
# openai 7.59.0, groq-sdk 1.6.0, together-ai 0.52.0, @cerebras/cerebras_cloud_sdk 1.91.0, ai 7.0.173 (npm): a stream whose
# connection is closed behind the line of an event, before the empty line that sends it. openai yields the event, which the
# HTML standard says to discard; its three siblings, made by the same generator, discard it and end as if all were said.
# Guess: one generator, one reader; and who misses `[DONE]` and a finish reason says so.
# Seen on 2026-11-29: "one two three", "one two " three times, an error of `ai` alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts openai@7.59.0 groq-sdk@1.6.0 together-ai@0.52.0 \
  @cerebras/cerebras_cloud_sdk@1.91.0 ai@7.0.173 @ai-sdk/openai-compatible@3.0.92 >/dev/null

cat >expected <<'EXPECTED'
openai: "one two three"
groq: "one two "
together: "one two "
cerebras: "one two "
ai: Response stream ended without a finish reason.
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Cerebras } from '@cerebras/cerebras_cloud_sdk'
import { streamText } from 'ai'
import Groq from 'groq-sdk'
import { createServer } from 'node:http'
import OpenAI from 'openai'
import Together from 'together-ai'

const CHUNK = { id: 'a', object: 'chat.completion.chunk', created: 1, model: 'm' }
const event = (content) => `data: ${JSON.stringify({ ...CHUNK, choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n`
const server = createServer((request, response) => {
  response.setHeader('content-type', 'text/event-stream')
  request.resume().on('end', () => response.end(['one ', 'two ', 'three'].map(event).join('\n')))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const baseURL = `http://127.0.0.1:${server.address().port}`

const messages = [{ role: 'user', content: 'Good evening.' }]
const options = { apiKey: 'none', maxRetries: 0, baseURL }
const ofChat = async (client) => {
  let words = ''
  for await (const chunk of await client.chat.completions.create({ model: 'm', messages, stream: true })) {
    words += chunk.choices[0].delta.content ?? ''
  }
  return words
}
const CLIENTS = {
  openai: () => ofChat(new OpenAI(options)),
  groq: () => ofChat(new Groq(options)),
  together: () => ofChat(new Together(options)),
  cerebras: () => ofChat(new Cerebras({ ...options, warmTCPConnection: false })),
  ai: async () => {
    let failure
    const model = createOpenAICompatible({ name: 'any', baseURL })('m')
    const { textStream } = streamText({ model, messages, maxRetries: 0, onError: ({ error }) => (failure = error) })
    let words = ''
    for await (const part of textStream) words += part
    if (failure) throw failure
    return words
  },
}
for (const [client, ask] of Object.entries(CLIENTS)) {
  console.log(`${client}: ${await ask().then(JSON.stringify, (error) => error.message)}`)
}
server.close()
server.closeAllConnections()
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
