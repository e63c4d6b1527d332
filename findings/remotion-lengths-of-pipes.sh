#!/usr/bin/env bash
# @remotion/media-parser 4.0.529 (npm): what ffmpeg 5.1.9 wrote to a pipe, where it cannot go back to fill in the size, is 0 s
# long as FLAC (0 samples in STREAMINFO, "unknown" in RFC 9639) and a day and a half as WAV (0xFFFFFFFF bytes of data). So says
# `slowDurationInSeconds`, too, for which the parser is documented (read 2026-11-30) to go through the entire file.
# Guess: no quick length, and the right slow one.
# Seen on 2026-11-30: 0 s and 134,217.7 s for 30 s, although the samples that the same parser hands out end at 30 s; fragmented
# MP4 is as guessed. mediabunny 1.61.0 has every length, music-metadata 12.1.0 all but that of the FLAC, which it leaves out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(dpkg-query -W -f '${Version}' ffmpeg 2>/dev/null)" = 7:5.1.9-0+deb12u1 ] ||
  RUNLEVEL=1 apt-get install -y -qq --no-install-recommends ffmpeg=7:5.1.9-0+deb12u1 >/dev/null
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  @remotion/media-parser@4.0.529 mediabunny@1.61.0 music-metadata@12.1.0 >/dev/null

cat >expected <<'EXPECTED'
file.flac: remotion quick 30, slow 30, samples 30; mediabunny 30; music-metadata 30
pipe.flac: remotion quick 0, slow 0, samples 30; mediabunny 30; music-metadata none
file.wav: remotion quick 30, slow 30, samples 30; mediabunny 30; music-metadata 30
pipe.wav: remotion quick 134217.7, slow 134217.7, samples 30; mediabunny 30; music-metadata 30
pipe.m4a: remotion quick none, slow 30.1, samples 30.1; mediabunny 30.1; music-metadata 30.1
EXPECTED
tone() { ffmpeg -v error -nostdin -f lavfi -i sine=440:duration=30:sample_rate=16000 "$@"; }
for form in flac wav; do
  tone file.$form
  tone -f $form - | cat >pipe.$form
done
tone -c:a aac -f mp4 -movflags frag_keyframe+empty_moov - | cat >pipe.m4a
cat >program.mjs <<'PROGRAM'
import { parseMedia } from '@remotion/media-parser'
import { nodeReader } from '@remotion/media-parser/node'
import { ALL_FORMATS, BufferSource, Input } from 'mediabunny'
import { parseFile } from 'music-metadata'
import { readFileSync } from 'node:fs'

const shown = (seconds) => (seconds === null || seconds === undefined ? 'none' : Math.round(seconds * 10) / 10)
for (const src of process.argv.slice(2)) {
  const options = { src, reader: nodeReader, logLevel: 'error' }
  const fields = { durationInSeconds: true, slowDurationInSeconds: true }
  const { durationInSeconds, slowDurationInSeconds } = await parseMedia({ ...options, fields })
  let end
  const onAudioTrack = () => (sample) => {
    end = (sample.timestamp + sample.duration) / 1e6
  }
  await parseMedia({ ...options, onAudioTrack })
  const input = new Input({ formats: ALL_FORMATS, source: new BufferSource(readFileSync(src)) })
  const { format } = await parseFile(src, { duration: true })
  console.log(
    `${src}: remotion quick ${shown(durationInSeconds)}, slow ${shown(slowDurationInSeconds)}, samples ${shown(end)}; ` +
      `mediabunny ${shown(await input.computeDuration())}; music-metadata ${shown(format.duration)}`,
  )
}
PROGRAM
node program.mjs file.flac pipe.flac file.wav pipe.wav pipe.m4a >seen

diff --label expected --label seen -u expected seen
cat seen
