#!/usr/bin/env bash
# ffmpeg 5.1.9 (Debian): a WebVTT file without cues becomes a SubRip file of 0 bytes with exit code 0, which ffmpeg then
# refuses to read. A WebVTT file without cues it reads.
# Guess: what one conversion writes the next one reads; an empty list of cues is a valid SubRip file.
# Seen on 2026-11-28: 0 bytes; "Invalid data found when processing input", exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in ffmpeg=7:5.1.9-0+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
written: 0 bytes
written.srt: Invalid data found when processing input
read: exit code 1
EXPECTED
printf 'WEBVTT\n' >empty.vtt
code=0
{
  ffmpeg -v error -nostdin -i empty.vtt written.srt && echo "written: $(wc -c <written.srt) bytes"
  ffmpeg -v error -nostdin -i written.srt read.vtt 2>&1 || code=$?
  echo "read: exit code $code"
} >seen

diff --label expected --label seen -u expected seen
cat seen
