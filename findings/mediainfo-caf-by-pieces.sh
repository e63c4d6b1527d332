#!/usr/bin/env bash
# mediainfo.js 0.3.8 (npm): the length of PCM in Apple's CAF depends on how many bytes its reader is given at a time. With
# the default of 256 KiB half a minute and a minute are 8.189 s both, also with `full`; the size of the stream is what was
# read, although the file's size is told right beside it.
# Guess: the length comes from the header, whose data chunk has its size.
# Seen on 2026-11-29: 3, 8.189, 8.189 s for 3, 30, 60 s; right with pieces of 4 MiB, and for WAV with any.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(dpkg-query -W -f '${Version}' ffmpeg 2>/dev/null)" = 7:5.1.9-0+deb12u1 ] ||
  RUNLEVEL=1 apt-get install -y -qq --no-install-recommends ffmpeg=7:5.1.9-0+deb12u1 >/dev/null
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts mediainfo.js@0.3.8 >/dev/null

cat >expected <<'EXPECTED'
default: caf 3 s of 3, 8.189 s of 30, 8.189 s of 60; wav 3 s of 3, 30 s of 30, 60 s of 60
full: caf 3 s of 3, 8.189 s of 30, 8.189 s of 60; wav 3 s of 3, 30 s of 30, 60 s of 60
4 MiB: caf 3 s of 3, 30 s of 30, 60 s of 60; wav 3 s of 3, 30 s of 30, 60 s of 60
EXPECTED
for seconds in 3 30 60; do
  for form in caf wav; do
    ffmpeg -v error -nostdin -f lavfi -i "sine=440:duration=$seconds:sample_rate=16000" -bitexact "$seconds.$form"
  done
done
node --input-type=module >seen <<'PROGRAM'
import createMediaInfo from 'mediainfo.js'
import { readFileSync } from 'node:fs'

for (const [name, options] of [['default', {}], ['full', { full: true }], ['4 MiB', { chunkSize: 4 << 20 }]]) {
  const mediaInfo = await createMediaInfo({ format: 'object', ...options })
  const lengths = async (form) => {
    const of = []
    for (const seconds of [3, 30, 60]) {
      const bytes = readFileSync(`${seconds}.${form}`)
      const { media } = await mediaInfo.analyzeData(() => bytes.length, (size, offset) => bytes.subarray(offset, offset + size))
      of.push(`${Number(media.track[0].Duration)} s of ${seconds}`)
    }
    return `${form} ${of.join(', ')}`
  }
  console.log(`${name}: ${await lengths('caf')}; ${await lengths('wav')}`)
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
