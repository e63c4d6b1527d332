#!/usr/bin/env bash
# typescript 7.0.2 (npm): the package runs `tsc` and has no JavaScript API behind its main entry.
# Guess: `require('typescript')` offers createProgram and transpileModule, as in 5 and 6, on which many tools build.
# Seen on 2026-11-28: tsc compiles; the functions are not there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts typescript@7.0.2 >/dev/null

cat >expected <<'EXPECTED'
export const answer = 42;
version: string
createProgram: undefined
transpileModule: undefined
EXPECTED
echo 'export const answer: number = 42' >answer.ts
{
  node_modules/.bin/tsc answer.ts && cat answer.js | tail -n 1
  node -e "
    let api = {}
    try { api = require('typescript') } catch (error) { console.log(error.code) }
    for (const name of ['version', 'createProgram', 'transpileModule']) console.log(name + ': ' + typeof api[name])"
} >seen

diff --label expected --label seen -u expected seen
cat seen
