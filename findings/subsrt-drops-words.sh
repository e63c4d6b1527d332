#!/usr/bin/env bash
# subsrt-ts 2.1.2 (npm), reading SubRip: `text` lacks all from `>>` to the next colon, the sign of captions for another
# speaker, and all between `<` and `>` that stand apart; the last cue of the file ends with a line break.
# Guess: `text` is the cue without tags such as <i>; words stay.
# Seen on 2026-11-28: ">> Good, then: nine" is read as "nine", "3 < 5 and 5 > 3" as "3  3".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts subsrt-ts@2.1.2 >/dev/null

cat >expected <<'EXPECTED'
"Good evening."
"nine"
"3  3"
"the end\r\n"
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import subsrt from 'subsrt-ts'

const texts = ['<i>Good</i> evening.', '>> Good, then: nine', '3 < 5 and 5 > 3', 'the end']
const cues = texts.map((text, index) => `${index + 1}\n00:00:0${index},000 --> 00:00:0${index},900\n${text}\n`)
const { parse } = subsrt.default ?? subsrt
for (const { text } of parse(cues.join('\n'), { format: 'srt' })) console.log(JSON.stringify(text))
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
