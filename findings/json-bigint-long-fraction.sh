#!/usr/bin/env bash
# json-bigint 1.0.0 (npm) with `useNativeBigInt`: a number of more than 15 characters is made a BigInt, a fraction, too.
# Guess: only integers become BigInt; a fraction stays a number, since no BigInt can hold it.
# Seen on 2026-11-28: `0.123456789012345` (17 characters) throws a SyntaxError, `0.1234567890123` is read.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts json-bigint@1.0.0 >/dev/null

cat >expected <<'EXPECTED'
12345678901234567890: bigint
0.1234567890123: number
0.123456789012345: SyntaxError, Cannot convert 0.123456789012345 to a BigInt
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import jsonBigInt from 'json-bigint'

const { parse } = jsonBigInt({ useNativeBigInt: true })
for (const text of ['12345678901234567890', '0.1234567890123', '0.123456789012345'])
  try {
    const { price } = parse(`{"price": ${text}}`)
    console.log(`${text}: ${typeof price}`)
  } catch (error) {
    console.log(`${text}: ${error.name}, ${error.message}`)
  }
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
