#!/usr/bin/env bash
# @dexterai/x402 2.0.0 (npm) knows the scheme `exact` alone, yet pays an offer of the scheme `upto`: under the name `upto` it
# signs an EIP-3009 transfer of the whole maximum. It prefers this even when an offer of `exact`, five times cheaper, stands
# beside it. So who accepts it takes the maximum, and who reads the scheme finds no permit.
# Guess: a client skips schemes that it does not know, as the official one, @faremeter/fetch and mppx do.
# Seen on 2026-11-29: of the offers upto 5000 and exact 1000 the three sign 1000, dexter 5000; of upto alone the three throw.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in @dexterai/x402@2.0.0 @x402/fetch@2.27.0 @x402/evm@2.27.0 @faremeter/fetch@0.22.0 \
  @faremeter/payment-evm@0.22.0 mppx@0.11.0 viem@2.57.20; do
  npm install --prefix . --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps "$package" >/dev/null
done

cat >expected <<'EXPECTED'
upto and exact: official exact 1000, faremeter exact 1000, mppx exact 1000, dexter upto 5000
upto alone: official throws, faremeter throws, mppx throws, dexter upto 5000
EXPECTED
cat >program.mjs <<'PROGRAM'
import { wrapFetch } from '@dexterai/x402/client'
import { wrap } from '@faremeter/fetch'
import { exact as faremeterExact } from '@faremeter/payment-evm'
import { ExactEvmScheme } from '@x402/evm/exact/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { evm, Mppx } from 'mppx/client'
import { createServer } from 'node:http'
import { privateKeyToAccount } from 'viem/accounts'
import { base } from 'viem/chains'

const recipient = `0x${'20'.repeat(20)}`
const exact = {
  scheme: 'exact',
  network: 'eip155:8453',
  amount: '1000',
  asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
  payTo: recipient,
  maxTimeoutSeconds: 60,
  extra: { name: 'USD Coin', version: '2' },
}
const permit2 = { assetTransferMethod: 'permit2', facilitatorAddress: recipient }
const upto = { ...exact, scheme: 'upto', amount: '5000', extra: { ...exact.extra, ...permit2 } }

let accepts
let signed
const server = createServer((request, response) => {
  let body = ''
  request.on('data', (part) => (body += part)).on('end', () => {
    if (request.url === '/balance') {
      const answer = { jsonrpc: '2.0', id: JSON.parse(body).id, result: `0x${'f'.repeat(16).padStart(64, '0')}` }
      return response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
    }
    const payment = request.headers['payment-signature']
    if (payment) {
      const { accepted, payload } = JSON.parse(Buffer.from(payment, 'base64'))
      signed = `${accepted.scheme} ${payload.authorization.value}`
      return response.end('{}')
    }
    const offer = { x402Version: 2, error: 'payment required', resource: { url: `${origin}/paid` }, accepts }
    response.writeHead(402, { 'payment-required': Buffer.from(JSON.stringify(offer)).toString('base64') }).end('{}')
  })
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const origin = `http://127.0.0.1:${server.address().port}`

const key = `0x${'11'.repeat(32)}`
const account = privateKeyToAccount(key)
const wallet = { chain: base, address: account.address, account }
const CLIENTS = {
  official: wrapFetchWithPayment(fetch, new x402Client().register('eip155:8453', new ExactEvmScheme(account))),
  faremeter: wrap(fetch, { handlers: [faremeterExact.createPaymentHandler(wallet)], retryCount: 0 }),
  mppx: Mppx.create({ methods: [evm.charge({ account })], polyfill: false }).fetch,
  dexter: wrapFetch(fetch, { evmPrivateKey: key, rpcUrls: { 'eip155:8453': `${origin}/balance` } }),
}
for (const [name, offers] of [['upto and exact', [upto, exact]], ['upto alone', [upto]]]) {
  accepts = offers
  const outcomes = []
  for (const [client, pay] of Object.entries(CLIENTS)) {
    signed = undefined
    const failed = await pay(`${origin}/paid`, { method: 'POST', body: '{}' }).then(() => false, () => true)
    outcomes.push(`${client} ${failed ? 'throws' : signed}`)
  }
  console.log(`${name}: ${outcomes.join(', ')}`)
}
server.close()
server.closeAllConnections()
PROGRAM
node program.mjs >seen 2>errors || { cat errors; exit 1; }

diff --label expected --label seen -u expected seen
cat seen
