#!/usr/bin/env bash
# ffmpeg 5.1.9 (Debian): every text conversion goes through ASS, whose signs are escaped by halves. `C:\New` of a SubRip
# file becomes two lines in SubRip and WebVTT; braces of a WebVTT file come back with backslashes.
# Guess: SubRip to SubRip and WebVTT to WebVTT leave plain text alone.
# Seen on 2026-11-28: `save in C:` and `ew {today}`; `press \{Enter\}`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in ffmpeg=7:5.1.9-0+deb12u1; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
save in C:
ew {today}
press \{Enter\}
EXPECTED
printf '1\n00:00:01,000 --> 00:00:02,000\nsave in C:\\New {today}\n' >in.srt
printf 'WEBVTT\n\n00:01.000 --> 00:02.000\npress {Enter}\n' >in.vtt
ffmpeg -v error -nostdin -i in.srt out.srt
ffmpeg -v error -nostdin -i in.vtt out.vtt
{ tail -n +3 out.srt; tail -n +4 out.vtt; } | tr -d "\r" | grep . >seen

diff --label expected --label seen -u expected seen
cat seen
