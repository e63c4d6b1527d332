import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createBalanceReader } from '#shared/adapters/chain/reading/balance-reader.ts'
import { createAuthorizationVerifier } from '#shared/adapters/chain/verification/authorization-verifier.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Challenge } from '../../../api/paid-request/challenge/challenge.ts'
import { createPayerMemory } from '../../../api/paid-request/payment/payer-memory.ts'
import { verifyAuthorization } from '../../../api/paid-request/payment/verify-authorization.ts'
import { createVerificationLimiter } from '../../../api/plugins/rate-limits.ts'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { newAllowances, terms } from '../routes/compose-app.ts'

let devnet: TestDevnet
let proxy: RpcProxy
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
})
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

/** The parts of an API process that verify payments, with a memory of their own. */
function startVerifying({ newPayersPerMinute = 1000 } = {}) {
  const client = createChainClient(proxy.url, PATIENCE_MS)
  const payers = createPayerMemory()
  const dependencies = {
    terms,
    verifier: createAuthorizationVerifier(client, 8453),
    chainClock: { chainNow: async () => new Date() },
    balances: createBalanceReader(client),
    payers,
    limitVerifications: createVerificationLimiter(newAllowances(), newPayersPerMinute),
    now: () => new Date(),
  }
  const verify = async (authorization: Authorization, address = '203.0.113.1') => {
    const callsBefore = proxy.calls.length
    const outcome = await refusalOf(authorization, address)
    return { outcome, calls: proxy.calls.length - callsBefore }
  }
  const refusalOf = async (authorization: Authorization, address: string) => {
    const challenge = {
      quote: { quotedMaximum: authorization.authorizedMaximum, terms: {} },
    } as unknown as Challenge
    const payment = {
      authorization,
      challengeTokenSha256: '',
      challengeExpiresAt: new Date(Date.now() + 600_000),
      alteredTerm: null,
    }
    try {
      await verifyAuthorization(dependencies, payment, challenge, { ip: address })
      return 'verified'
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      // The handler remembers a refusal once it is certain that the payment did not settle meanwhile.
      return payers.rememberRefusal(authorization, error, challenge).code
    }
  }
  return { verify, payers }
}

const emptyPayer = () => createPayer(devnet.rpcUrl, { usdcAtomic: 0n })
const sign = (payer: Payer, gasSponsored = true) => signAuthorization(devnet, payer, { gasSponsored })

describe('what an account without funds costs', () => {
  it('verifying the same payment 300 times costs one RPC call', async () => {
    const { verify } = startVerifying()
    const payment = await sign(await emptyPayer())
    let calls = 0
    for (let sent = 0; sent < 300; sent += 1) {
      const verified = await verify(payment)
      expect(verified.outcome).toBe('insufficient_funds')
      calls += verified.calls
    }
    expect(calls).toBe(1)
  })

  it.each([true, false])('each newly signed payment costs one RPC call (with a permit: %s)', async (gasSponsored) => {
    const { verify } = startVerifying()
    const payer = await emptyPayer()
    for (let sent = 0; sent < 5; sent += 1)
      expect(await verify(await sign(payer, gasSponsored))).toEqual({ outcome: 'insufficient_funds', calls: 1 })
  })

  it('the empty accounts of one address cost no RPC call beyond their limit, and payers who can pay are not limited', async () => {
    const { verify } = startVerifying({ newPayersPerMinute: 3 })
    const known = await createPayer(devnet.rpcUrl)
    expect((await verify(await sign(known))).outcome).toBe('verified')
    for (let sent = 0; sent < 3; sent += 1)
      expect((await verify(await sign(await emptyPayer()))).outcome).toBe('insufficient_funds')
    expect(await verify(await sign(await emptyPayer()))).toEqual({ outcome: 'rate_limited', calls: 0 })
    expect((await verify(await sign(known))).outcome).toBe('verified')
    expect((await verify(await sign(await emptyPayer()), '203.0.113.2')).outcome).toBe('insufficient_funds')
  })
})

describe('payers who can pay', () => {
  it('the balance is read before the first payment of a payer only', async () => {
    const { verify } = startVerifying()
    const payer = await createPayer(devnet.rpcUrl)
    const [first, second] = [await verify(await sign(payer)), await verify(await sign(payer))]
    expect([first.outcome, second.outcome, first.calls - second.calls]).toEqual(['verified', 'verified', 1])
  })

  it('a payer who adds funds pays with a newly signed payment immediately, and then with the refused one', async () => {
    const { verify } = startVerifying()
    const payer = await emptyPayer()
    const refused = await sign(payer)
    expect((await verify(refused)).outcome).toBe('insufficient_funds')
    await mintUsdc(devnet.rpcUrl, payer.address, 1_000_000n)
    expect(await verify(refused)).toEqual({ outcome: 'insufficient_funds', calls: 0 })
    expect((await verify(await sign(payer))).outcome).toBe('verified')
    expect((await verify(refused)).outcome).toBe('verified')
  })

  it('a known payer whose payment is refused is new again', async () => {
    const { verify, payers } = startVerifying()
    const payer = await createPayer(devnet.rpcUrl)
    await payer.approve()
    expect((await verify(await sign(payer, false))).outcome).toBe('verified')
    expect(payers.isKnown(payer.address)).toBe(true)
    await payer.spendAll()
    expect((await verify(await sign(payer, false))).outcome).toBe('insufficient_funds')
    expect(payers.isKnown(payer.address)).toBe(false)
    expect(await verify(await sign(payer, false))).toEqual({ outcome: 'insufficient_funds', calls: 1 })
  })

  it('an allowance granted after a refusal is found with a permit attached to the same payment', async () => {
    const { verify } = startVerifying()
    const payer = await createPayer(devnet.rpcUrl)
    const withPermit = await sign(payer)
    expect((await verify({ ...withPermit, gasSponsoring: null })).outcome).toBe('permit2_allowance_required')
    expect((await verify(withPermit)).outcome).toBe('verified')
  })
})
