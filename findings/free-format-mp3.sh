#!/usr/bin/env bash
# Free-format MP3 (bit rate 0 in the header, valid in ISO 11172-3) by lame 3.100, read by ffmpeg 5.1.9, mpg123 1.31.2
# (Debian) and get-mp3-duration 1.0.0 (npm).
# Guess: who does not read free format says so; who states a length can decode the file.
# Seen on 2026-11-28: of 20 s ffprobe states 20.0, yet ffmpeg decodes no sample; get-mp3-duration says 4.1 s
# without an error; mpg123 decodes 20 s.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in lame=3.100-6 ffmpeg=7:5.1.9-0+deb12u1 mpg123=1.31.2-1+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts get-mp3-duration@1.0.0 >/dev/null

cat >expected <<'EXPECTED'
ffprobe: 20.0
ffmpeg decodes: 0 bytes of samples
mpg123: 20.0
get-mp3-duration: 4123 ms
EXPECTED
ffmpeg -v error -nostdin -f lavfi -i sine=440:sample_rate=44100:duration=20 tone.wav
lame --quiet --freeformat -b 400 -m m tone.wav free.mp3
seconds() { ffprobe -v error -show_entries format=duration -of csv=p=0 "$1" | cut -c1-4; }
samples() { { ffmpeg -v quiet -nostdin -i "$1" -f s16le - || true; } | wc -c; }
{
  echo "ffprobe: $(seconds free.mp3)"
  echo "ffmpeg decodes: $(samples free.mp3) bytes of samples"
  mpg123 -q -w out.wav free.mp3 && echo "mpg123: $(seconds out.wav)"
  echo "get-mp3-duration: $(node -p "require('get-mp3-duration')(fs.readFileSync('free.mp3'))") ms"
} >seen

diff --label expected --label seen -u expected seen
cat seen
