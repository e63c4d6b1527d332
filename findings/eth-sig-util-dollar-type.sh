#!/usr/bin/env bash
# @metamask/eth-sig-util 8.2.0 (npm): a struct type whose name has a `$`, valid in Solidity and so in EIP-712, loses its
# definition from the encoded type: another digest than viem 2.57.20 and ethers 6.17.0 sign.
# Guess: three libraries of one standard agree on typed data that all of them accept.
# Seen on 2026-11-28: named Fee all three agree; named Fee$ eth-sig-util alone differs, without an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts \
  @metamask/eth-sig-util@8.2.0 viem@2.57.20 ethers@6.17.0 >/dev/null

cat >expected <<'EXPECTED'
Fee: ethers true, eth-sig-util true
Order(Fee fee)Fee(uint256 units)
Fee$: ethers true, eth-sig-util false
Order(Fee$ fee)
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import sigUtil from '@metamask/eth-sig-util'
import { TypedDataEncoder } from 'ethers'
import { hashTypedData } from 'viem'

for (const name of ['Fee', 'Fee$']) {
  const types = { Order: [{ name: 'fee', type: name }], [name]: [{ name: 'units', type: 'uint256' }] }
  const EIP712Domain = [{ name: 'name', type: 'string' }]
  const data = { primaryType: 'Order', domain: { name: 'Shop' }, message: { fee: { units: 1 } } }
  const typed = { ...data, types: { EIP712Domain, ...types } }
  const viem = hashTypedData(typed)
  const ethers = TypedDataEncoder.hash(data.domain, types, data.message)
  const metamask = `0x${Buffer.from(sigUtil.TypedDataUtils.eip712Hash(typed, 'V4')).toString('hex')}`
  console.log(`${name}: ethers ${ethers === viem}, eth-sig-util ${metamask === viem}`)
  console.log(sigUtil.TypedDataUtils.encodeType('Order', typed.types))
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
