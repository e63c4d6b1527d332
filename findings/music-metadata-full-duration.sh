#!/usr/bin/env bash
# music-metadata 11.16.1 (npm) with `duration: true`, which is to scan the whole file: two VBR files joined by `cat`
# have the length of the first, since its Xing header is believed; so have two constant ones whose sample rates differ.
# Guess: the option measures what is there: 40 s.
# Seen on 2026-11-28: 20.04 s for both; get-mp3-duration 1.0.0 counts 40.1 s.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in lame=3.100-6 ffmpeg=7:5.1.9-0+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  music-metadata@11.16.1 get-mp3-duration@1.0.0 >/dev/null

cat >expected <<'EXPECTED'
joined-variable: 20.04 s, by frames 40.1 s
joined-rates: 20.04 s, by frames 40.1 s
EXPECTED
for rate in 44100 22050; do
  ffmpeg -v error -nostdin -f lavfi -i "sine=440:sample_rate=$rate:duration=20" $rate.wav
  lame --quiet -b 64 -m m $rate.wav $rate.mp3
done
lame --quiet -V 4 -m m 44100.wav variable.mp3
cat variable.mp3 variable.mp3 >joined-variable.mp3
cat 44100.mp3 22050.mp3 >joined-rates.mp3
node --input-type=module >seen <<'PROGRAM'
import getDuration from 'get-mp3-duration'
import { parseBuffer } from 'music-metadata'
import { readFileSync } from 'node:fs'

for (const name of ['joined-variable', 'joined-rates']) {
  const bytes = readFileSync(`${name}.mp3`)
  const { format } = await parseBuffer(bytes, { mimeType: 'audio/mpeg' }, { duration: true })
  console.log(`${name}: ${format.duration.toFixed(2)} s, by frames ${(getDuration(bytes) / 1000).toFixed(1)} s`)
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
