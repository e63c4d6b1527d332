#!/usr/bin/env bash
# ttml2srt 1.2.4 (npm): a time of TTML in frames, ticks or seconds whose part below a second is less than a tenth is written as
# ten times that part (1.04 s as 00:00:01,400), as its milliseconds are padded on the wrong side. At 25 frames a second these
# are frames 1 and 2 of each second, and a cue of ten frames from there ends before it begins.
# Guess: frames, which broadcasters write (EBU-TT), come out within a frame, and ticks, which streaming services write, exactly.
# Seen on 2026-12-01: 0.36 and 0.72 s late, and 0.9 s early where 999.6 ms are rounded. Only clock times with a decimal point are
# right. imsc 1.1.5, by an author of the W3C's profiles, reads all of them as the standard has it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts ttml2srt@1.2.4 imsc@1.1.5 >/dev/null

cat >expected <<'EXPECTED'
00:00:01.040 to 00:00:02.080: ttml2srt 00:00:01,040 --> 00:00:02,080; imsc 1040 to 2080 ms
00:00:01:01 to 00:00:02:02: ttml2srt 00:00:01,400 --> 00:00:02,800; imsc 1040 to 2080 ms
00:00:01:02 to 00:00:01:12: ttml2srt 00:00:01,800 --> 00:00:01,480; imsc 1080 to 1480 ms
1.04s to 2.08s: ttml2srt 00:00:01,400 --> 00:00:02,800; imsc 1040 to 2080 ms
10400000t to 20800000t: ttml2srt 00:00:01,400 --> 00:00:02,800; imsc 1040 to 2080 ms
9996000t to 19996000t: ttml2srt 00:00:00,100 --> 00:00:01,100; imsc 1000 to 2000 ms
EXPECTED
cat >program.cjs <<'PROGRAM'
const { ttml2srt } = require('ttml2srt')
// The whole package needs a browser.
const { fromXML } = require('imsc/src/main/js/doc.js')

// Announces the frame rate.
console.info = () => undefined
const tt = '<tt xmlns="http://www.w3.org/ns/ttml" xmlns:ttp="http://www.w3.org/ns/ttml#parameter" xml:lang="en"'
for (const [begin, end] of process.argv.slice(2).map((times) => times.split('/'))) {
  const cue = `<p begin="${begin}" end="${end}">At nine.</p>`
  const text = `${tt} ttp:frameRate="25" ttp:tickRate="10000000"><body><div>${cue}</div></body></tt>`
  const [, written] = ttml2srt(text).split('\r\n')
  const [, ...read] = fromXML(text).getMediaTimeEvents()
  const milliseconds = read.map((seconds) => Math.round(seconds * 1000)).join(' to ')
  console.log(`${begin} to ${end}: ttml2srt ${written}; imsc ${milliseconds} ms`)
}
PROGRAM
node program.cjs 00:00:01.040/00:00:02.080 00:00:01:01/00:00:02:02 00:00:01:02/00:00:01:12 1.04s/2.08s \
  10400000t/20800000t 9996000t/19996000t >seen

diff --label expected --label seen -u expected seen
cat seen
