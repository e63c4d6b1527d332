#!/usr/bin/env bash
# x402 1.2.0 (npm): the price "$4.02" becomes 4019999.9999999995 atomic units of USDC, a string that no uint256 field
# takes; "$4.01" becomes 4010000.
# Guess: prices with two digits after the point become whole atomic units, since `maxAmountRequired` is a uint256.
# Seen on 2026-11-28: of the 1,000 prices from $0.01 to $10.00, 34 are no whole number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts x402@1.2.0 >/dev/null

cat >expected <<'EXPECTED'
$4.01 4010000
$4.02 4019999.9999999995
$8.20 8199999.999999999
not whole: 34 of 1000
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { processPriceToAtomicAmount } from 'x402/shared'

const amount = (price) => processPriceToAtomicAmount(price, 'base').maxAmountRequired
for (const price of ['$4.01', '$4.02', '$8.20']) console.log(price, amount(price))
const prices = Array.from({ length: 1000 }, (_, index) => `$${((index + 1) / 100).toFixed(2)}`)
console.log(`not whole: ${prices.filter((price) => !/^\d+$/.test(amount(price))).length} of ${prices.length}`)
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
