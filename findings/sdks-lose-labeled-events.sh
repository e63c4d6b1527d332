#!/usr/bin/env bash
# @google/genai 3.3.0, together-ai 0.52.0, @cerebras/cerebras_cloud_sdk 1.91.0 (npm): an event of a stream that carries
# more than its `data` field, as the HTML standard allows and proxies add, is lost. With @google/genai an `id`, the
# default's own name `event: message` or a comment before the data leaves an empty answer, without an error; together-ai
# is silent about `event: message` too, Cerebras raises a TypeError.
# Guess: the official clients read any event stream of the standard alike; openai and Mistral's do.
# Seen on 2026-11-29: the answer "one two", in six spellings of one stream, five clients.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts openai@7.59.0 @mistralai/mistralai@2.7.0 \
  together-ai@0.52.0 @cerebras/cerebras_cloud_sdk@1.91.0 @google/genai@3.3.0 >/dev/null

cat >expected <<'EXPECTED'
openai: nothing is lost
mistral: nothing is lost
together: event message ""
cerebras: event message TypeError
genai: id "", event message "", comment before data ""
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { Cerebras } from '@cerebras/cerebras_cloud_sdk'
import { GoogleGenAI } from '@google/genai'
import { Mistral } from '@mistralai/mistralai'
import { createServer } from 'node:http'
import OpenAI from 'openai'
import Together from 'together-ai'

const SPELLINGS = {
  plain: (data) => `data: ${data}\n\n`,
  'lines with CRLF': (data) => `data: ${data}\r\n\r\n`,
  'comment between events': (data) => `: still here\n\ndata: ${data}\n\n`,
  id: (data) => `id: 1\ndata: ${data}\n\n`,
  'event message': (data) => `event: message\ndata: ${data}\n\n`,
  'comment before data': (data) => `: still here\ndata: ${data}\n\n`,
}
const CHUNK = { id: 'a', object: 'chat.completion.chunk', created: 1, model: 'm' }
const chatEvent = (content) => JSON.stringify({ ...CHUNK, choices: [{ index: 0, delta: { content }, finish_reason: null }] })
const geminiEvent = (text) => JSON.stringify({ candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] } }] })

let spelled
const server = createServer((request, response) => {
  const isGemini = request.url.includes('GenerateContent')
  const events = ['one ', 'two'].map(isGemini ? geminiEvent : chatEvent)
  response.setHeader('content-type', 'text/event-stream')
  request.resume().on('end', () => response.end([...events.map(spelled), isGemini ? '' : 'data: [DONE]\n\n'].join('')))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const origin = `http://127.0.0.1:${server.address().port}`

const asked = { model: 'm', messages: [{ role: 'user', content: 'Good evening.' }] }
const options = { apiKey: 'none', maxRetries: 0, baseURL: `${origin}/v1` }
const textOf = async (stream, read) => {
  let text = ''
  for await (const event of await stream) text += read(event)
  return text
}
const ofChat = (event) => event.choices[0].delta.content ?? ''
const completionOf = (client) => textOf(client.chat.completions.create({ ...asked, stream: true }), ofChat)
const mistral = new Mistral({ apiKey: 'none', serverURL: origin })
const google = new GoogleGenAI({ apiKey: 'none', httpOptions: { baseUrl: origin } })
const CLIENTS = {
  openai: () => completionOf(new OpenAI(options)),
  mistral: () => textOf(mistral.chat.stream(asked), (event) => ofChat(event.data)),
  together: () => completionOf(new Together(options)),
  cerebras: () => completionOf(new Cerebras({ ...options, warmTCPConnection: false })),
  genai: () => textOf(google.models.generateContentStream({ model: 'm', contents: 'Hi.' }), (event) => event.text ?? ''),
}
for (const [client, ask] of Object.entries(CLIENTS)) {
  const lost = []
  for (const [spelling, spell] of Object.entries(SPELLINGS)) {
    spelled = spell
    const text = await ask().then(JSON.stringify, (error) => error.name)
    if (text !== '"one two"') lost.push(`${spelling} ${text}`)
  }
  console.log(`${client}: ${lost.join(', ') || 'nothing is lost'}`)
}
server.close()
server.closeAllConnections()
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
