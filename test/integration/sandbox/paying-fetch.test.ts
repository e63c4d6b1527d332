import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodePaymentSignatureHeader, encodePaymentRequiredHeader } from '@x402/core/http'
import type { PaymentPayload } from '@x402/core/types'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { paymentRequiredFor, permitInfoOf, requirementsFor, settleWithPermit } from './upto-payment.ts'

let devnet: TestDevnet
let server: Server
let url: string
let maximumAtomic = 0n
let received: PaymentPayload[] = []

beforeAll(async () => {
  devnet = await startTestDevnet()
  server = createServer((request, response) => {
    const signed = request.headers['payment-signature']
    if (typeof signed === 'string') received.push(decodePaymentSignatureHeader(signed))
    const challenge = encodePaymentRequiredHeader(paymentRequiredFor(requirementsFor(devnet, maximumAtomic)))
    if (signed === undefined) response.writeHead(402, { 'PAYMENT-REQUIRED': challenge })
    response.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})
afterAll(async () => {
  server.close()
  await devnet.stop()
})
beforeEach(() => {
  received = []
})

/** Creates the simplest official client: a plain viem account, and the chain by URL. */
function createClient(): x402Client {
  const account = privateKeyToAccount(devnet.accounts.payer.privateKey)
  return new x402Client().register('eip155:8453', new UptoEvmScheme(account, { rpcUrl: devnet.rpcUrl }))
}

describe('a paying fetch against the devnet', () => {
  it('a paying fetch needs only an account and an RPC URL, and its payment settles', async () => {
    maximumAtomic = 1_000_000n
    const response = await wrapFetchWithPayment(fetch, createClient())(url, { method: 'POST', body: '{}' })
    expect(response.status).toBe(200)
    const [payment] = received
    if (payment === undefined) throw new Error('no payment arrived')
    expect(permitInfoOf(payment)).toMatchObject({ amount: '1000000', nonce: '0' })
    expect((await settleWithPermit(devnet, payment, 42n)).status).toBe('success')
    expect(await devnet.usdcBalance(devnet.accounts.recipient.address)).toBe(42n)
  })

  it('a paying fetch rejects a maximum above $1 unless spendControls allow it', async () => {
    maximumAtomic = 1_000_001n
    const strict = wrapFetchWithPayment(fetch, createClient())
    await expect(strict(url)).rejects.toThrow('rejected by spendControls.maxAmountPerPayment ($1')
    const raised = wrapFetchWithPayment(fetch, createClient().setSpendControls({ maxAmountPerPayment: '$5' }))
    expect((await raised(url)).status).toBe(200)
    expect(received).toHaveLength(1)
  })

  it('a paying fetch signs no permit when it cannot read the chain', async () => {
    maximumAtomic = 10n
    const account = privateKeyToAccount(devnet.accounts.payer.privateKey)
    const withoutRpc = new x402Client().register('eip155:8453', new UptoEvmScheme(account))
    expect((await wrapFetchWithPayment(fetch, withoutRpc)(url)).status).toBe(200)
    expect(received.map(permitInfoOf)).toEqual([undefined])
  })
})
