#!/usr/bin/env bash
# SubRip with cues at 100 hours, as ffmpeg 5.1.9 writes them from WebVTT, read by npm packages.
# Guess: they are read, or the whole file is refused; the cue before them comes back unchanged.
# Seen on 2026-11-28: subtitle 4.2.2 and @plussub/srt-vtt-parser 2.0.5 read them; subsrt-ts 2.1.2 and media-captions
# 1.0.4 drop them without a word; srt-parser-2 1.2.3 shows them, number and times, as text of the cue before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  subtitle@4.2.2 @plussub/srt-vtt-parser@2.0.5 subsrt-ts@2.1.2 media-captions@1.0.4 srt-parser-2@1.2.3 >/dev/null

cat >expected <<'EXPECTED'
subtitle: ["first","late","last"]
@plussub/srt-vtt-parser: ["first","late","last"]
subsrt-ts: ["first"]
media-captions: ["first"]
srt-parser-2: ["first\n\n2\n100:00:01,000 --> 100:00:02,000\nlate\n\n3\n100:00:03,000 --> 100:00:04,000\nlast"]
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { parse } from '@plussub/srt-vtt-parser'
import { parseText } from 'media-captions'
import srtParser2 from 'srt-parser-2'
import subsrt from 'subsrt-ts'
import { parseSync } from 'subtitle'

const times = ['00:00:01,000 --> 00:00:02,000', '100:00:01,000 --> 100:00:02,000', '100:00:03,000 --> 100:00:04,000']
const file = times.map((time, index) => `${index + 1}\n${time}\n${['first', 'late', 'last'][index]}\n`).join('\n')
const show = (name, texts) => console.log(`${name}: ${JSON.stringify(texts)}`)
const Parser = srtParser2.default ?? srtParser2
show('subtitle', parseSync(file).map((node) => node.data.text))
show('@plussub/srt-vtt-parser', parse(file).entries.map((entry) => entry.text))
show('subsrt-ts', (subsrt.default ?? subsrt).parse(file, { format: 'srt' }).map((cue) => cue.text))
show('media-captions', (await parseText(file, { type: 'srt' })).cues.map((cue) => cue.text))
show('srt-parser-2', new Parser().fromSrt(file).map((cue) => cue.text))
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
