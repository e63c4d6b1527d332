#!/usr/bin/env bash
# ffmpeg 5.1.9 behind lame 3.100 (Debian): which sample rate an MP3 joined from two rates has depends on how early it
# changes. After 1.2 s the whole file has the second rate, in ffprobe and in what ffmpeg writes; after 1.5 s the first.
# Guess: always the rate of the first frame, to which the rest is resampled.
# Seen on 2026-11-30: the four lines below. So 1.2 s of 44,100 Hz become a WAV of 22,050 Hz, which cannot hold what was above
# 11 kHz; of a beginning that is 0.3 s longer, all is kept.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in ffmpeg=7:5.1.9-0+deb12u1 lame=3.100-6; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
44100 Hz for 1.2 s, then 22050: ffprobe 22050, written 22050
44100 Hz for 1.5 s, then 22050: ffprobe 44100, written 44100
22050 Hz for 1.2 s, then 44100: ffprobe 44100, written 44100
22050 Hz for 1.5 s, then 44100: ffprobe 22050, written 22050
EXPECTED
rate() { ffprobe -v error -show_entries stream=sample_rate -of csv=p=0 "$1"; }
encode() {
  ffmpeg -v error -nostdin -y -f lavfi -i "sine=440:sample_rate=$1:duration=$2" tone.wav
  lame --quiet -t -b 64 -m m tone.wav "$3"
}
for rates in '44100 22050' '22050 44100'; do
  read -r first second <<<"$rates"
  encode "$second" 3 rest.mp3
  for seconds in 1.2 1.5; do
    encode "$first" "$seconds" begin.mp3
    cat begin.mp3 rest.mp3 >joined.mp3
    ffmpeg -v error -nostdin -y -i joined.mp3 written.wav
    echo "$first Hz for $seconds s, then $second: ffprobe $(rate joined.mp3), written $(rate written.wav)"
  done
done >seen

diff --label expected --label seen -u expected seen
cat seen
