#!/usr/bin/env bash
# mpg123 1.31.2 and lame 3.100 (Debian): an MP3 whose sample rate changes midway is written up to there, exit code 0.
# Guess: the rest is resampled, as a player does aloud, or the exit code says that it is missing.
# Seen on 2026-11-28: of 40 s (44.1 kHz, then 22.05 kHz) `mpg123 -w` and `lame --decode` write 20 s; ffmpeg writes 40.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpg123=1.31.2-1+deb12u1 lame=3.100-6 ffmpeg=7:5.1.9-0+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
mpg123: exit 0, 20 s
lame: exit 0, 20 s
ffmpeg: exit 0, 40 s
EXPECTED
for rate in 44100 22050; do
  ffmpeg -v error -nostdin -f lavfi -i "sine=440:sample_rate=$rate:duration=20" $rate.wav
  lame --quiet -b 64 -m m $rate.wav $rate.mp3
done
cat 44100.mp3 22050.mp3 >joined.mp3
seconds() { ffprobe -v error -show_entries format=duration -of csv=p=0 "$1" | cut -d. -f1; }
{
  mpg123 -q -w mpg123.wav joined.mp3 && echo "mpg123: exit 0, $(seconds mpg123.wav) s"
  lame --quiet --decode joined.mp3 lame.wav && echo "lame: exit 0, $(seconds lame.wav) s"
  ffmpeg -v error -nostdin -i joined.mp3 ffmpeg.wav && echo "ffmpeg: exit 0, $(seconds ffmpeg.wav) s"
} >seen 2>/dev/null

diff --label expected --label seen -u expected seen
cat seen
