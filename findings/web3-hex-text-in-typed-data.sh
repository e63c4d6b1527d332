#!/usr/bin/env bash
# web3-eth-abi 4.4.1 (npm, of web3 4): `getEncodedEip712Data` takes a `string` of typed data that looks like hexadecimal
# for bytes. So the text "0x1234", such as an order's identifier, has another digest than in six other libraries, and a
# signature over it is for them another signer's.
# Guess: a string is its UTF-8 bytes, as EIP-712 says, whatever it looks like.
# Seen on 2026-11-29: "order 7" has one digest in seven libraries, "0x1234" another in web3 alone, without an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in web3-eth-abi@4.4.1 viem@2.57.20 ethers@6.17.0 @ethersproject/hash@5.8.0 \
  ox@1.8.3 @metamask/eth-sig-util@9.0.0 eip-712@1.0.0; do
  npm install --prefix . --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps "$package" >/dev/null
done

cat >expected <<'EXPECTED'
order 7: one digest
0x1234: web3 differs
EXPECTED
cat >program.cjs <<'PROGRAM'
const sigUtil = require('@metamask/eth-sig-util')
const { _TypedDataEncoder: Encoder5 } = require('@ethersproject/hash')
const eip712 = require('eip-712')
const { TypedDataEncoder: Encoder6 } = require('ethers')
const { TypedData } = require('ox')
const { hashTypedData } = require('viem')
const { getEncodedEip712Data } = require('web3-eth-abi')

const hex = (bytes) => `0x${Buffer.from(bytes).toString('hex')}`
const LIBRARIES = {
  web3: (data) => getEncodedEip712Data(data, true),
  viem: (data) => hashTypedData(data),
  ethers5: ({ domain, types: { Order }, message }) => Encoder5.hash(domain, { Order }, message),
  ethers6: ({ domain, types: { Order }, message }) => Encoder6.hash(domain, { Order }, message),
  ox: (data) => TypedData.getSignPayload(data),
  sigUtil: (data) => hex(sigUtil.TypedDataUtils.eip712Hash(data, 'V4')),
  eip712: (data) => hex(eip712.getMessage(data, true)),
}
for (const id of ['order 7', '0x1234']) {
  const types = { EIP712Domain: [{ name: 'name', type: 'string' }], Order: [{ name: 'id', type: 'string' }] }
  const data = { domain: { name: 'Shop' }, types, primaryType: 'Order', message: { id } }
  const digests = Object.entries(LIBRARIES).map(([library, digest]) => [library, digest(structuredClone(data))])
  const common = digests.find(([library]) => library === 'viem')[1]
  const others = digests.filter(([, digest]) => digest !== common).map(([library]) => library)
  console.log(`${id}: ${others.length === 0 ? 'one digest' : `${others.join(', ')} differs`}`)
}
PROGRAM
node program.cjs >seen

diff --label expected --label seen -u expected seen
cat seen
