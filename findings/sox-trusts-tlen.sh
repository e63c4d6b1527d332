#!/usr/bin/env bash
# sox 14.4.2 behind lame 3.100 and ffmpeg 5.1.9 (Debian): lame writes the length into the tag (TLEN), ffmpeg copies it
# to a part that it cuts out, and `soxi -D` states it instead of the part's own length.
# Guess: 5 s, from header, bit rate or frames; a tag about the recording is for people.
# Seen on 2026-11-28: soxi says 20.000000 for a file of 5 s, ffprobe 5.04; sox itself reads 5.04 s of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
packages=(sox=14.4.2+git20190427-3.5 libsox-fmt-mp3=14.4.2+git20190427-3.5
  lame=3.100-6 ffmpeg=7:5.1.9-0+deb12u1)
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
soxi: 20.000000
ffprobe: 5.041633
read by sox: 5.041633
EXPECTED
sox -n -r 44100 -c 1 tone.wav synth 20 sine 440
lame --quiet -b 64 --add-id3v2 --tt tone tone.wav whole.mp3
ffmpeg -v error -nostdin -i whole.mp3 -t 5 -c copy part.mp3
sox part.mp3 part.wav
{
  echo "soxi: $(soxi -D part.mp3)"
  echo "ffprobe: $(ffprobe -v error -show_entries format=duration -of csv=p=0 part.mp3)"
  echo "read by sox: $(soxi -D part.wav)"
} >seen

diff --label expected --label seen -u expected seen
cat seen
