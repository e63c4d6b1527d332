#!/usr/bin/env bash
# permissionless 0.4.1 (npm), toSafeSmartAccount with a passkey as owner: the Safe is set up to check it in Solidity only.
# Guess: the chain's P-256 (RIP-7212, 0x100) first and the contract where a chain has none, as the signer's field
# `verifiers` has room for both. The default names the contract alone, for good: it is stored when the Safe is created.
# Seen on 2026-11-29: `verifiers` without a precompiled contract. A check in Solidity (the verifier of safe-passkey 0.2.0)
# took 212,631 gas, the chain's own 6,888: too much for whoever bounds what a signature check may use.
set -euo pipefail
folder=$(mktemp -d)
trap '[ -n "${anvil:-}" ] && kill "$anvil" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts --force @foundry-rs/anvil@1.7.1 permissionless@0.4.1 \
  ox@0.11.3 viem@2.57.1 @safe-global/safe-passkey@0.2.0 >/dev/null
port=$((20000 + RANDOM % 10000))
"$(find node_modules/@foundry-rs -path '*bin/anvil' -type f | head -n 1)" --port "$port" --silent &
anvil=$!

cat >expected <<'EXPECTED'
precompiled contract in verifiers: none
contract in verifiers: 0xA86e0054C51E4894D88762a017ECc5E5235f5DBA
the same check in Solidity: more than 5 times the gas of the chain's own
EXPECTED
PORT=$port node --input-type=module >seen <<'PROGRAM'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { toSafeSmartAccount } from 'permissionless/accounts'
import { concat, createPublicClient, getAddress, http, slice, toHex } from 'viem'
import { toWebAuthnAccount } from 'viem/account-abstraction'
import { base } from 'viem/chains'
const transport = http(`http://127.0.0.1:${process.env.PORT}`)
const client = createPublicClient({ chain: base, transport })
for (let tries = 0; tries < 100; tries += 1) {
  if (await client.getChainId().catch(() => undefined)) break
  await new Promise((resolve) => setTimeout(resolve, 100))
}
const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const jwk = publicKey.export({ format: 'jwk' })
const [x, y] = [jwk.x, jwk.y].map((part) => toHex(Buffer.from(part, 'base64url')))
const owner = toWebAuthnAccount({ credential: { id: 'passkey', publicKey: concat([x, y]) }, rpId: 'wallet.example' })
// The factory is not there: only what it would be told is looked at.
const account = await toSafeSmartAccount({ client, owners: [owner], version: '1.4.1', address: `0x${'5a'.repeat(20)}` })
const { factoryData } = await account.getFactoryArgs()
const configured = factoryData.slice(factoryData.indexOf(x.slice(2)) + 128, factoryData.indexOf(x.slice(2)) + 192)
const precompiled = slice(`0x${configured}`, 10, 12)
console.log(`precompiled contract in verifiers: ${BigInt(precompiled) === 0n ? 'none' : precompiled}`)
console.log(`contract in verifiers: ${getAddress(slice(`0x${configured}`, 12))}`)

const artifact = 'node_modules/@safe-global/safe-passkey/build/artifacts/contracts/verifiers/FCLP256Verifier.sol/FCLP256Verifier.json'
const verifier = `0x${'fc'.repeat(20)}`
const { deployedBytecode } = JSON.parse(readFileSync(artifact, 'utf8'))
await client.request({ method: 'anvil_setCode', params: [verifier, deployedBytecode] })
const message = createHash('sha256').update('a message').digest()
const signature = sign('sha256', Buffer.from('a message'), { key: privateKey, dsaEncoding: 'ieee-p1363' })
const data = concat([toHex(message), toHex(signature), x, y])
const gas = async (to) => {
  const { data: answer } = await client.call({ to, data })
  if (BigInt(answer) !== 1n) throw new Error(`${to} does not take the signature`)
  return Number(await client.estimateGas({ account: `0x${'01'.repeat(20)}`, to, data })) - 21_000 - 160 * 16
}
const [solidity, chain] = [await gas(verifier), await gas('0x0000000000000000000000000000000000000100')]
console.log(`the same check in Solidity: ${solidity > 5 * chain ? 'more than 5 times' : `${solidity} instead of ${chain}:`} the gas of the chain's own`)
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
