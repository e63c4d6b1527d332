#!/usr/bin/env bash
# music-metadata 11.16.1 (npm): a WAV in the RF64 form, which ffmpeg, recorders and editors write so that it may pass
# 4 GiB, is taken for MPEG audio when only the bytes are given: its samples are searched for MPEG's sync word.
# Guess: read as the WAV that it is, or refused as unknown.
# Seen on 2026-11-29: 30 s of 16 kHz mono are "MPEG 1 Layer 1" of 0 s at 44.1 kHz, without an error; as a file, or with the
# type audio/wav, it has no length at all. mediabunny 1.61.0 says 30 s.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(dpkg-query -W -f '${Version}' ffmpeg 2>/dev/null)" = 7:5.1.9-0+deb12u1 ] ||
  RUNLEVEL=1 apt-get install -y -qq --no-install-recommends ffmpeg=7:5.1.9-0+deb12u1 >/dev/null
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts music-metadata@11.16.1 mediabunny@1.61.0 >/dev/null

cat >expected <<'EXPECTED'
music-metadata, bytes: MPEG 1 Layer 1, 44100 Hz, 0 s
music-metadata, bytes of audio/wav: undefined, undefined Hz, undefined s
music-metadata, file: undefined, undefined Hz, undefined s
mediabunny: 30 s
EXPECTED
ffmpeg -v error -nostdin -f lavfi -i sine=440:duration=30:sample_rate=16000 -bitexact -rf64 always tone.wav
node --input-type=module >seen <<'PROGRAM'
import { ALL_FORMATS, BufferSource, Input } from 'mediabunny'
import { parseBuffer, parseFile } from 'music-metadata'
import { readFileSync } from 'node:fs'

const bytes = readFileSync('tone.wav')
const WAYS = {
  bytes: () => parseBuffer(bytes, undefined, { duration: true }),
  'bytes of audio/wav': () => parseBuffer(bytes, { mimeType: 'audio/wav' }, { duration: true }),
  file: () => parseFile('tone.wav', { duration: true }),
}
for (const [way, parse] of Object.entries(WAYS)) {
  const { codec, sampleRate, duration } = (await parse()).format
  console.log(`music-metadata, ${way}: ${codec}, ${sampleRate} Hz, ${duration} s`)
}
console.log(`mediabunny: ${await new Input({ source: new BufferSource(bytes), formats: ALL_FORMATS }).computeDuration()} s`)
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
