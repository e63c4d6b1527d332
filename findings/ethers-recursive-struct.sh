#!/usr/bin/env bash
# ethers 6.17.0 (npm): typed data with a struct that has an array of itself is refused, "circular type reference",
# although EIP-712 says that recursive struct types are supported.
# Guess: it is hashed as by viem 2.57.20; only cyclic values, which the standard leaves undefined, are refused.
# Seen on 2026-11-28: viem returns a digest, ethers throws.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts ethers@6.17.0 viem@2.57.20 >/dev/null

cat >expected <<'EXPECTED'
viem: 0xb62ddbc8
ethers: circular type reference to "Comment"
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { TypedDataEncoder } from 'ethers'
import { hashTypedData } from 'viem'

const types = { Comment: [{ name: 'text', type: 'string' }, { name: 'replies', type: 'Comment[]' }] }
const message = { text: 'first', replies: [{ text: 'second', replies: [] }] }
const domain = { name: 'Forum' }
console.log(`viem: ${hashTypedData({ domain, types, primaryType: 'Comment', message }).slice(0, 10)}`)
try {
  console.log(`ethers: ${TypedDataEncoder.hash(domain, types, message).slice(0, 10)}`)
} catch (error) {
  console.log(`ethers: ${error.shortMessage}`)
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
