#!/usr/bin/env bash
# @deepgram/captions 1.2.0 (npm) has a converter for AssemblyAI's transcripts, whose times are milliseconds (so say the types
# of AssemblyAI's SDK, assemblyai 4.41.5), and takes them for seconds: each caption is 1,000 times too late, and each 86.4 s
# of speech begin at midnight again, without an error. Unknown speakers, null there, are shown as "Speaker null".
# Guess: the times come out as the words have them, since the converter is for this one vendor.
# Seen on 2026-11-30: 0.24 to 1.9 s are 00:04:00 to 00:31:40, 90 to 91.5 s are 01:00:00 to 01:25:00. The same words as
# Deepgram's own answer, in seconds, come out right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts @deepgram/captions@1.2.0 assemblyai@4.41.5 >/dev/null

cat >expected <<'EXPECTED'
The starting time, in milliseconds, for the word
deepgram: 00:00:00,240 --> 00:00:01,900 Good evening, listeners.
deepgram: 00:01:30,000 --> 00:01:31,500 Good night.
assemblyai, speakers: 00:04:00,000 --> 00:31:40,000 [Speaker A] Good evening, listeners.
assemblyai, speakers: 01:00:00,000 --> 01:25:00,000 [Speaker B] Good night.
assemblyai: 00:04:00,000 --> 00:31:40,000 [Speaker null] Good evening, listeners.
assemblyai: 01:00:00,000 --> 01:25:00,000 Good night.
EXPECTED
cat >program.mjs <<'PROGRAM'
import { AssemblyAiConverter, srt } from '@deepgram/captions'
import { AssemblyAI } from 'assemblyai'
import { createServer } from 'node:http'

const confidence = 0.98
const SAID = [
  { speaker: 'A', words: [['Good', 240, 560], ['evening,', 600, 1100], ['listeners.', 1150, 1900]] },
  { speaker: 'B', words: [['Good', 90000, 90600], ['night.', 90700, 91500]] },
]

// Answers as AssemblyAI does: utterances and speakers only where they were asked for.
let labels
const server = createServer(async (request, response) => {
  let body = ''
  for await (const part of request) body += part
  if (request.method === 'POST') labels = JSON.parse(body).speaker_labels === true
  const utterances = SAID.map(({ speaker: name, words }) => {
    const speaker = labels ? name : null
    return {
      speaker,
      text: words.map(([text]) => text).join(' '),
      start: words[0][1],
      end: words.at(-1)[2],
      confidence,
      words: words.map(([text, start, end]) => ({ text, start, end, confidence, speaker })),
    }
  })
  const transcript = {
    id: '00000000-0000-4000-8000-000000000001',
    status: 'completed',
    audio_duration: 92,
    text: utterances.map(({ text }) => text).join(' '),
    words: utterances.flatMap(({ words }) => words),
    utterances: labels ? utterances : null,
  }
  response.setHeader('content-type', 'application/json').end(JSON.stringify(transcript))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const client = new AssemblyAI({ apiKey: 'none', baseUrl: `http://127.0.0.1:${server.address().port}` })

const show = (title, captions) => {
  for (const caption of captions.trim().split('\n\n')) console.log(`${title}: ${caption.split('\n').slice(1).join(' ')}`)
}
const inSeconds = ([word, start, end]) => ({ word, start: start / 1000, end: end / 1000, confidence })
show('deepgram', srt({ results: { utterances: SAID.map(({ words }) => ({ words: words.map(inSeconds) })) } }))
for (const speaker_labels of [true, false]) {
  const transcript = await client.transcripts.transcribe({ audio: 'https://media.example/talk.wav', speaker_labels })
  show(speaker_labels ? 'assemblyai, speakers' : 'assemblyai', srt(new AssemblyAiConverter(transcript), 3))
}
server.close()
server.closeAllConnections()
PROGRAM
{
  grep -oE -m 1 'The starting time, in milliseconds, for the word' node_modules/assemblyai/dist/types/openapi.generated.d.ts
  node program.mjs
} >seen

diff --label expected --label seen -u expected seen
cat seen
