#!/usr/bin/env bash
# node-webvtt 1.9.4 and subtitle 4.2.2 (npm): a WebVTT file with a STYLE or REGION block is refused, although a NOTE
# block at the same place is read.
# Guess: readers skip blocks that they do not use.
# Seen on 2026-11-28: both throw at STYLE and REGION; media-captions 1.0.4 reads all three.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  node-webvtt@1.9.4 subtitle@4.2.2 media-captions@1.0.4 >/dev/null

cat >expected <<'EXPECTED'
NOTE, node-webvtt: 1 cue
NOTE, subtitle: 1 cue
NOTE, media-captions: 1 cue
STYLE, node-webvtt: Cue identifier needs to be followed by timestamp (cue #0)
STYLE, subtitle: expected timestamp at row 3, but received: "STYLE"
STYLE, media-captions: 1 cue
REGION, node-webvtt: Cue identifier needs to be followed by timestamp (cue #0)
REGION, subtitle: expected timestamp at row 3, but received: "REGION"
REGION, media-captions: 1 cue
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { parseText } from 'media-captions'
import webvtt from 'node-webvtt'
import { parseSync } from 'subtitle'

const readers = {
  'node-webvtt': (file) => webvtt.parse(file).cues,
  subtitle: (file) => parseSync(file).filter(({ type }) => type === 'cue'),
  'media-captions': async (file) => (await parseText(file, { type: 'vtt' })).cues,
}
for (const block of ['NOTE by hand', 'STYLE\n::cue { color: lime }', 'REGION\nid:low'])
  for (const [name, read] of Object.entries(readers)) {
    const file = `WEBVTT\n\n${block}\n\n00:01.000 --> 00:02.000\nGood evening.\n`
    const result = await Promise.resolve(file).then(read).then((cues) => `${cues.length} cue`, (error) => error.message)
    console.log(`${block.split(/\s/)[0]}, ${name}: ${result}`)
  }
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
