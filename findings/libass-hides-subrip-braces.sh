#!/usr/bin/env bash
# ffmpeg 5.1.9 with libass 0.17.1 (Debian): in SubRip, which has no such markup, everything between braces is invisible
# on the picture, over line ends, too; converted to SubRip it is all still there.
# Guess: only what looks like an ASS override, `{\an8}`, is hidden; `{name}` is text.
# Seen on 2026-11-28: the pictures of "a{name}b" and "ab" are the same bytes, as are "c{x<line end>y}d" and "cd".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in ffmpeg=7:5.1.9-0+deb12u1 libass9=1:0.17.1-1+deb12u1 fonts-dejavu-core=2.37-6; do
  [ "$(dpkg-query -W -f '${Version}' "${package%%=*}" 2>/dev/null)" = "${package#*=}" ] ||
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null
done

cat >expected <<'EXPECTED'
a{name}b looks like ab
c{x\ny}d looks like cd
a{name differs from a
ab differs from a
EXPECTED
picture() {
  printf '1\n00:00:00,000 --> 00:00:02,000\n%b\n' "$1" >text.srt
  ffmpeg -v error -nostdin -f lavfi -i color=black:s=320x80:d=1 -vf subtitles=text.srt \
    -frames:v 1 -f rawvideo - | md5sum
}
same() { [ "$(picture "$1")" = "$(picture "$2")" ] && echo "$1 looks like $2" || echo "$1 differs from $2"; }
{ same 'a{name}b' ab; same 'c{x\ny}d' cd; same 'a{name' a; same ab a; } >seen

diff --label expected --label seen -u expected seen
cat seen
