#!/usr/bin/env bash
# ffmpeg 5.1.9 (Debian): its WebVTT writer escapes nothing, so `1 < 2` of a SubRip file is an opened tag, and its own
# WebVTT reader loses the rest of the line.
# Guess: `<` and `&` become `&lt;` and `&amp;`, without which the output is no WebVTT text.
# Seen on 2026-11-28: `fees: 1 < 2, AT&T` is written as it stands and read back as `fees: 1`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in ffmpeg=7:5.1.9-0+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
written: fees: 1 < 2, AT&T
read: fees: 1
EXPECTED
printf '1\n00:00:01,000 --> 00:00:02,000\nfees: 1 < 2, AT&T\n' >in.srt
ffmpeg -v error -nostdin -i in.srt written.vtt
ffmpeg -v error -nostdin -i written.vtt read.srt
{ echo "written: $(grep fees written.vtt)"; echo "read: $(grep fees read.srt)"; } | sed 's/ *$//' >seen

diff --label expected --label seen -u expected seen
cat seen
