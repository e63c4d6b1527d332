#!/usr/bin/env bash
# A chained Ogg file, as a recorder of internet radio writes one with each title (RFC 3533: links one after the other), has the
# length of its first link for music-metadata 12.1.0, mediabunny 1.61.0 (npm) and MediaInfo 23.04, of its last one for
# ffprobe 5.1.9 with Vorbis, which knows none with Opus. soxi 14.4.2 counts both. ffmpeg decodes both.
# Guess: 33 s, as each page has the place in its link, or an error.
# Seen on 2026-11-30: 20 s, 20 s, 20 s and 13 s of 33 s of Vorbis; 20 s, 20 s, 20 s and N/A of 33 s of Opus.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in ffmpeg=7:5.1.9-0+deb12u1 vorbis-tools=1.4.2-1+b1 opus-tools=0.2-1+b1 mediainfo=23.04-1 \
  sox=14.4.2+git20190427-3.5; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts music-metadata@12.1.0 mediabunny@1.61.0 >/dev/null

cat >expected <<'EXPECTED'
first.ogg: music-metadata 20, mediabunny 20, mediainfo 20, ffprobe 20, soxi 20, decoded 20
chained.ogg: music-metadata 20, mediabunny 20, mediainfo 20, ffprobe 13, soxi 33, decoded 33
first.opus: music-metadata 20, mediabunny 20, mediainfo 20, ffprobe 20, decoded 20
chained.opus: music-metadata 20, mediabunny 20, mediainfo 20, ffprobe N/A, decoded 33
EXPECTED
serial=1
for link in first:20 second:13; do
  ffmpeg -v error -nostdin -f lavfi -i "sine=440:sample_rate=48000:duration=${link#*:}" -bitexact "${link%:*}.wav"
  oggenc -Q -s $serial -o "${link%:*}.ogg" "${link%:*}.wav"
  opusenc --quiet --serial $serial "${link%:*}.wav" "${link%:*}.opus"
  serial=$((serial + 1))
done
for kind in ogg opus; do cat first.$kind second.$kind >chained.$kind; done
cat >program.mjs <<'PROGRAM'
import { ALL_FORMATS, BufferSource, Input } from 'mediabunny'
import { parseBuffer } from 'music-metadata'
import { readFileSync } from 'node:fs'

const bytes = new Uint8Array(readFileSync(process.argv[2]))
const { format } = await parseBuffer(bytes, { mimeType: 'audio/ogg' }, { duration: true })
const length = await new Input({ formats: ALL_FORMATS, source: new BufferSource(bytes) }).computeDuration()
console.log(`music-metadata ${Math.round(format.duration)}, mediabunny ${Math.round(length)}`)
PROGRAM
whole() { awk '{ print ($1 ~ /^[0-9]/) ? sprintf("%.0f", $1 / '"$1"') : $1 }'; }
for file in first.ogg chained.ogg first.opus chained.opus; do
  libraries=$(node program.mjs $file)
  of_mediainfo=$(mediainfo --Inform='General;%Duration%' $file | whole 1000)
  of_ffprobe=$(ffprobe -v error -show_entries format=duration -of csv=p=0 $file | whole 1)
  of_sox=
  [ "${file##*.}" = opus ] || of_sox=", soxi $(soxi -D $file | whole 1)"
  decoded=$(ffmpeg -v quiet -nostdin -i $file -ac 1 -ar 1000 -f u8 - | wc -c | whole 1000)
  echo "$file: $libraries, mediainfo $of_mediainfo, ffprobe $of_ffprobe$of_sox, decoded $decoded"
done >seen

diff --label expected --label seen -u expected seen
cat seen
