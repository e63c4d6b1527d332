#!/usr/bin/env bash
# @plussub/srt-vtt-parser 2.0.5 (npm): WebVTT times without hours are right, and with hours and cue settings, too; a
# short end time that settings follow is taken 60 times as long.
# Guess: settings behind the times do not change them.
# Seen on 2026-11-28: `00:01.000 --> 00:02.000 line:0` ends at 120000 ms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts @plussub/srt-vtt-parser@2.0.5 >/dev/null

cat >expected <<'EXPECTED'
00:01.000 --> 00:02.000: 1000 to 2000
00:00:01.000 --> 00:00:02.000 line:0: 1000 to 2000
00:01.000 --> 00:02.000 line:0: 1000 to 120000
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { parse } from '@plussub/srt-vtt-parser'

const times = ['00:01.000 --> 00:02.000', '00:00:01.000 --> 00:00:02.000 line:0', '00:01.000 --> 00:02.000 line:0']
for (const line of times) {
  const [{ from, to }] = parse(`WEBVTT\n\n${line}\nGood evening.\n`).entries
  console.log(`${line}: ${from} to ${to}`)
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
