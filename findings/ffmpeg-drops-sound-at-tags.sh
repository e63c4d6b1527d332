#!/usr/bin/env bash
# ffmpeg 5.1.9 behind lame 3.100 (Debian): of MP3s with an ID3v2 tag each, joined by `cat`, it loses sound at every tag,
# exit code 0; mpg123 1.31.2 plays all of it.
# Guess: a tag between two frames is skipped and no frame is lost, as in the same clips without tags.
# Seen on 2026-11-28: ten clips are 10.449 s; with tags ffmpeg writes 9.979 s, after nine lines of
# "Header missing".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in ffmpeg=7:5.1.9-0+deb12u1 lame=3.100-6 mpg123=1.31.2-1+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
bare: ffmpeg 10.448, mpg123 10.448, told: 0
tagged: ffmpeg 9.9787, mpg123 10.448, told: 9
EXPECTED
ffmpeg -v error -nostdin -f lavfi -i sine=440:sample_rate=44100:duration=1 tone.wav
lame --quiet -t -b 64 -m m tone.wav bare.mp3
lame --quiet -t -b 64 -m m --add-id3v2 --tt clip tone.wav tagged.mp3
seconds() { ffprobe -v error -show_entries format=duration -of csv=p=0 "$1" | cut -c1-6; }
for kind in bare tagged; do
  for _ in 1 2 3 4 5 6 7 8 9 10; do cat $kind.mp3; done >joined.mp3
  ffmpeg -v error -nostdin -y -i joined.mp3 ffmpeg.wav 2>said
  mpg123 -q --no-gapless -w mpg123.wav joined.mp3
  echo "$kind: ffmpeg $(seconds ffmpeg.wav), mpg123 $(seconds mpg123.wav), told: $(grep -c "Header missing" said)"
done >seen

diff --label expected --label seen -u expected seen
cat seen
