#!/usr/bin/env bash
# @faremeter/fetch 0.22.0 and @dexterai/x402 2.0.0 (npm) send none of the offer's `extensions` back with the payment, although
# x402 v2 (section 5.1.2, read 2026-11-30) has the client echo at least what it received. Its `resource` and unknown members of
# `extra` they do send back. So a server that keeps its state there, or hands out a permit's nonce there, never sees it again.
# Guess: all four echo it, as one object is all that it takes.
# Seen on 2026-11-30: @x402/fetch 2.27.0 and mppx 0.11.0 echo both extensions, the other two none; all four echo the rest.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in @dexterai/x402@2.0.0 @x402/fetch@2.27.0 @x402/evm@2.27.0 @faremeter/fetch@0.22.0 \
  @faremeter/payment-evm@0.22.0 mppx@0.11.0 viem@2.57.20; do
  npm install --prefix . --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps "$package" >/dev/null
done

cat >expected <<'EXPECTED'
official: extensions com.example.note,payment-identifier; extra.ticket t-1; resource A page
mppx: extensions com.example.note,payment-identifier; extra.ticket t-1; resource A page
faremeter: extensions none; extra.ticket t-1; resource A page
dexter: extensions none; extra.ticket t-1; resource A page
EXPECTED
cat >program.mjs <<'PROGRAM'
import { wrapFetch } from '@dexterai/x402/client'
import { wrap } from '@faremeter/fetch'
import { exact as faremeterExact } from '@faremeter/payment-evm'
import { ExactEvmScheme } from '@x402/evm/exact/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { evm, Mppx } from 'mppx/client'
import { createServer } from 'node:http'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { base } from 'viem/chains'

const accepts = [
  {
    scheme: 'exact',
    network: 'eip155:8453',
    amount: '1000',
    asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
    payTo: `0x${'20'.repeat(20)}`,
    maxTimeoutSeconds: 60,
    extra: { name: 'USD Coin', version: '2', ticket: 't-1' },
  },
]
const extensions = {
  'payment-identifier': { info: { required: false }, schema: { type: 'object' } },
  'com.example.note': { info: { shelf: 7 }, schema: { type: 'object' } },
}

let payment
const server = createServer((request, response) => {
  let body = ''
  request.on('data', (part) => (body += part)).on('end', () => {
    if (request.url === '/balance') {
      const answer = { jsonrpc: '2.0', id: JSON.parse(body).id, result: `0x${'f'.repeat(16).padStart(64, '0')}` }
      return response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
    }
    const header = request.headers['payment-signature']
    if (header) {
      payment = JSON.parse(Buffer.from(header, 'base64'))
      return response.end('{}')
    }
    const resource = { url: `${origin}/paid`, description: 'A page', mimeType: 'application/json' }
    const offer = { x402Version: 2, error: 'payment required', resource, accepts, extensions }
    response.writeHead(402, { 'payment-required': Buffer.from(JSON.stringify(offer)).toString('base64') }).end('{}')
  })
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const origin = `http://127.0.0.1:${server.address().port}`

const key = generatePrivateKey()
const account = privateKeyToAccount(key)
const wallet = { chain: base, address: account.address, account }
const CLIENTS = {
  official: wrapFetchWithPayment(fetch, new x402Client().register('eip155:8453', new ExactEvmScheme(account))),
  mppx: Mppx.create({ methods: [evm.charge({ account })], polyfill: false }).fetch,
  faremeter: wrap(fetch, { handlers: [faremeterExact.createPaymentHandler(wallet)], retryCount: 0 }),
  dexter: wrapFetch(fetch, { evmPrivateKey: key, rpcUrls: { 'eip155:8453': `${origin}/balance` } }),
}
for (const [client, pay] of Object.entries(CLIENTS)) {
  await pay(`${origin}/paid`, { method: 'POST', body: '{}' })
  const echoed = Object.keys(payment.extensions ?? {}).toSorted().join(',') || 'none'
  const { accepted, resource } = payment
  console.log(`${client}: extensions ${echoed}; extra.ticket ${accepted.extra.ticket}; resource ${resource.description}`)
}
server.close()
server.closeAllConnections()
PROGRAM
node program.mjs >seen 2>errors || { cat errors; exit 1; }

diff --label expected --label seen -u expected seen
cat seen
