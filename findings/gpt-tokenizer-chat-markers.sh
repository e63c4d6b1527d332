#!/usr/bin/env bash
# gpt-tokenizer 4.0.0 (npm) with o200k_base: a text that merely mentions `<|im_start|>` throws, although that encoding
# has no such token; tiktoken 1.0.22 and js-tiktoken 1.0.21 count it as eight ordinary tokens.
# Guess: three ports of one encoding count alike; only the encoding's own markers need a permission.
# Seen on 2026-11-28: "Disallowed special token found: <|im_start|>" against 8 and 8.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  gpt-tokenizer@4.0.0 tiktoken@1.0.22 js-tiktoken@1.0.21 >/dev/null

cat >expected <<'EXPECTED'
a <b> c, tiktoken: 5
a <b> c, js-tiktoken: 5
a <b> c, gpt-tokenizer: 5
a <|im_start|> b, tiktoken: 8
a <|im_start|> b, js-tiktoken: 8
a <|im_start|> b, gpt-tokenizer: Disallowed special token found: <|im_start|>
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { encode } from 'gpt-tokenizer/encoding/o200k_base'
import { getEncoding } from 'js-tiktoken'
import { get_encoding } from 'tiktoken'

const name = 'o200k_base'
const ports = { tiktoken: get_encoding(name), 'js-tiktoken': getEncoding(name), 'gpt-tokenizer': { encode } }
for (const text of ['a <b> c', 'a <|im_start|> b'])
  for (const [name, port] of Object.entries(ports))
    try {
      console.log(`${text}, ${name}: ${port.encode(text).length}`)
    } catch (error) {
      console.log(`${text}, ${name}: ${error.message}`)
    }
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
