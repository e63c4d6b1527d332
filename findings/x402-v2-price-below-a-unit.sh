#!/usr/bin/env bash
# @x402/evm 2.27.0 (npm): a price below one atomic unit is cut, not rounded up or refused: $0.0000009 costs "0".
# Guess: a positive price is at least one unit, or parsePrice throws, as it does for "1e-7" and "-1".
# Seen on 2026-11-28: 0, 1 and 1000000 units for $0.0000009, $0.0000019 and $1.0000009.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts @x402/core@2.27.0 @x402/evm@2.27.0 >/dev/null

cat >expected <<'EXPECTED'
$0.0000009 0
$0.0000019 1
$1.0000009 1000000
1e-7 Invalid money format: 1e-7
-1 Invalid money format: -1
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { ExactEvmScheme } from '@x402/evm/exact/server'

const scheme = new ExactEvmScheme()
for (const price of ['$0.0000009', '$0.0000019', '$1.0000009', '1e-7', '-1'])
  await scheme.parsePrice(price, 'eip155:8453').then(
    ({ amount }) => console.log(price, amount),
    (error) => console.log(price, error.message),
  )
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
