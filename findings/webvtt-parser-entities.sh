#!/usr/bin/env bash
# webvtt-parser 2.2.0 (npm): named escapes keep their semicolon in the text that is shown.
# Guess: `Tom &amp; Jerry` is read as `Tom & Jerry`, as the WebVTT text tokenizer says.
# Seen on 2026-11-28: `Tom &; Jerry`, `1 <; 2`, no error reported; `&#39;` is read rightly.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts webvtt-parser@2.2.0 >/dev/null

cat >expected <<'EXPECTED'
Tom &amp; Jerry: Tom &; Jerry (errors: 0)
1 &lt; 2: 1 <; 2 (errors: 0)
it&#39;s: it's (errors: 0)
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import webvtt from 'webvtt-parser'

for (const text of ['Tom &amp; Jerry', '1 &lt; 2', 'it&#39;s']) {
  const { cues, errors } = new webvtt.WebVTTParser().parse(`WEBVTT\n\n00:01.000 --> 00:02.000\n${text}\n`)
  console.log(`${text}: ${cues[0].tree.children[0].value} (errors: ${errors.length})`)
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
