#!/usr/bin/env bash
# @deepgram/captions 1.2.0 and subtitle 4.2.2 (npm): times that no clock face shows. A word at 25:00:00.5 is written at
# 01:00:00,500, since a date is formatted; a cue at 100 hours is written as 04:00:00.345600000.
# Guess: hours count on, as WebVTT's "two or more digits" allow.
# Seen on 2026-11-28: `01:00:00,500 --> 01:00:01,000` and `00:00:00.000 --> 04:00:00.345600000`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  @deepgram/captions@1.2.0 subtitle@4.2.2 >/dev/null

cat >expected <<'EXPECTED'
01:00:00,500 --> 01:00:01,000
00:00:00.000 --> 04:00:00.345600000
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { srt } from '@deepgram/captions'
import { stringifySync } from 'subtitle'

const words = [{ word: 'late', punctuated_word: 'late', start: 90_000.5, end: 90_001, confidence: 1 }]
const transcription = { metadata: {}, results: { channels: [{ alternatives: [{ transcript: 'late', words }] }] } }
const cues = [{ type: 'cue', data: { start: 0, end: 360_000_000, text: 'late' } }]
for (const text of [srt(transcription), stringifySync(cues, { format: 'WebVTT' })])
  console.log(text.split('\n').find((line) => line.includes('-->')))
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
