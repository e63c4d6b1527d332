import type { FastifyInstance } from 'fastify'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createBalanceReader } from '#shared/chain/reading/balance-reader.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { addBalanceRoutes } from '../../../api/routes/balance.ts'
import { walletBalanceSchema } from '../../../api/schemas/allowances.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { composeApp, limitRate, limitTo, terms } from './compose-app.ts'

describe('the balance of a wallet', () => {
  let devnet: TestDevnet
  let proxy: RpcProxy
  let app: FastifyInstance
  beforeAll(async () => {
    devnet = await startTestDevnet()
    proxy = await startRpcProxy(devnet.rpcUrl)
    const balances = createBalanceReader(createChainClient(proxy.url, PATIENCE_MS))
    app = await composeApp((composed) => addBalanceRoutes(composed, { terms, balances, limitRate }))
  })

  afterEach(() => proxy.setFault(null))

  afterAll(async () => {
    await app.close()
    await proxy.stop()
    await devnet.stop()
  })

  const lookUp = (query: string) => app.inject(`/v1/balance${query}`)
  describe('GET /v1/balance', () => {
    it('GET /v1/balance returns a wallet’s USDC with every specified field and no other [spec R9]', async () => {
      const { address } = await createPayer(devnet.rpcUrl, { usdcAtomic: 5_034_000n })
      const answer = await lookUp(`?address=${address}`)
      expect(answer.statusCode).toBe(200)
      expect(answer.headers['cache-control']).toBe('no-store')
      expect(walletBalanceSchema.parse(answer.json())).toEqual({
        object: 'wallet_balance',
        network: 'eip155:8453',
        asset: terms.asset,
        currency: 'USDC',
        wallet: address,
        balance_usdc_atomic: '5034000',
        balance_usdc: '5.034',
      })
    })

    it('GET /v1/balance returns zero for a wallet that is unknown on chain', async () => {
      const answer = await lookUp(`?address=${privateKeyToAddress(generatePrivateKey())}`)
      expect(answer.json()).toMatchObject({ balance_usdc_atomic: '0', balance_usdc: '0' })
    })

    it.each([
      ['lower', (address: string) => address.toLowerCase()],
      ['upper', (address: string) => `0x${address.slice(2).toUpperCase()}`],
      [
        'mixed, without a checksum',
        (address: string) => `0x${address.slice(2, -1).toLowerCase()}${address.slice(-1)}A`.slice(0, 42),
      ],
    ])('GET /v1/balance accepts %s case and returns the address as it was sent', async (_, spell) => {
      const { address } = await createPayer(devnet.rpcUrl, { usdcAtomic: 7n })
      const wallet = spell(address)
      const answer = await lookUp(`?address=${wallet}`)
      expect({ status: answer.statusCode, wallet: answer.json().wallet }).toEqual({ status: 200, wallet })
    })

    it('GET /v1/balance makes a single call to the chain [spec E82]', async () => {
      const before = proxy.calls.length
      await lookUp(`?address=${terms.payTo}`)
      expect(proxy.calls.slice(before)).toEqual(['eth_call'])
    })

    it('HEAD /v1/balance is answered without a body', async () => {
      const answer = await app.inject({ method: 'HEAD', url: `/v1/balance?address=${terms.payTo}` })
      expect({ status: answer.statusCode, body: answer.body }).toEqual({ status: 200, body: '' })
    })
  })

  describe('a wrong address [spec E81]', () => {
    const valid = terms.payTo
    it.each([
      ['', 'missing_field'],
      ['?wallet=1', 'missing_field'],
      ['?address=', 'invalid_field'],
      ['?address=0x', 'invalid_field'],
      [`?address=${valid.slice(0, -1)}`, 'invalid_field'],
      [`?address=${valid}0`, 'invalid_field'],
      [`?address=${valid}%0A`, 'invalid_field'],
      [`?address=%20${valid}`, 'invalid_field'],
      [`?address=${valid.replace('0x', '0X')}`, 'invalid_field'],
      [`?address=${valid.slice(2)}`, 'invalid_field'],
      [`?address=${valid.replace('11', 'zz')}`, 'invalid_field'],
      [`?address=${valid}&address=${valid}`, 'invalid_field'],
      ['?address=vitalik.eth', 'invalid_field'],
    ])('GET /v1/balance%s is a 400 without a call to the chain', async (query, code) => {
      const before = proxy.calls.length
      const answer = await lookUp(query)
      expect(answer.statusCode).toBe(400)
      expect(answer.json()).toMatchObject({
        type: 'error',
        error: { type: 'invalid_request_error', param: 'address', code, payment: 'none', retry: 'never' },
      })
      expect(proxy.calls.length).toBe(before)
    })
  })

  describe('a failed balance lookup [spec F6]', () => {
    const faults: RpcFault[] = [
      { kind: 'reset' },
      { kind: 'invalid_json' },
      { kind: 'html' },
      { kind: 'status', status: 502 },
      { kind: 'error', code: -32_603, message: 'secret internal url' },
    ]
    it.each(faults)(
      'GET /v1/balance answers an RPC fault of kind $kind with a 503 that allows a retry and leaks nothing [spec E83]',
      async (fault) => {
        proxy.setFault(fault)
        const answer = await lookUp(`?address=${terms.payTo}`)
        expect(answer.statusCode).toBe(503)
        expect(answer.headers['retry-after']).toBe('2')
        expect(answer.json()).toMatchObject({
          type: 'error',
          error: { code: 'payment_network_unavailable', payment: 'none', retry: 'same_request' },
        })
        expect(answer.body).not.toMatch(/secret|127\.0\.0\.1/)
      },
    )
  })

  it('GET /v1/balance answers 429 with Retry-After to an address that asks too often [spec O33]', async () => {
    const limited = await composeApp((composed) =>
      addBalanceRoutes(composed, {
        terms,
        balances: { readBalance: async () => atomicAmount(0n) },
        limitRate: limitTo(1),
      }),
    )
    const ask = () => limited.inject(`/v1/balance?address=${terms.payTo}`)
    const [first, second] = [await ask(), await ask()]
    expect([first.statusCode, second.statusCode]).toEqual([200, 429])
    expect([first.headers['retry-after'], second.headers['retry-after']]).toEqual([undefined, '60'])
    expect(second.json()).toMatchObject({ error: { code: 'rate_limited', payment: 'none', retry: 'same_request' } })
  })
})
