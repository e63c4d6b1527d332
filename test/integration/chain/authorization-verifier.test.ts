import { maxUint256, type TypedDataDefinition } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { PERMIT2_ADDRESS } from '#shared/chain/network/contracts.ts'
import { createBalanceReader } from '#shared/chain/reading/balance-reader.ts'
import { createPayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import { createScreeningOracle } from '#shared/chain/reading/screening-oracle.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { createVerificationLimiter } from '../../../api/limits/rate-limits.ts'
import { createPayerMemory } from '../../../api/paid-request/pay/payer-memory.ts'
import type { PayerScreen } from '../../../api/paid-request/pay/payer-screen.ts'
import type { requiredPermit } from '../../../api/paid-request/pay/permit-terms.ts'
import { verifyAuthorization } from '../../../api/paid-request/pay/verify-authorization.ts'
import type { Challenge } from '../../../api/paid-request/quote/challenge.ts'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createContractVerifier } from '../../support/chain/contract-verifier.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { deployTestContract } from '../../support/chain/settlement-contract.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { permitCall, signAllowancePermit } from '../../support/payer/allowance-permit.ts'
import { createPayer, ELSEWHERE, type Payer, sendAs } from '../../support/payer/payer.ts'
import { type AuthorizationChanges, secondsFromNow, signAuthorization } from '../../support/payer/sign-authorization.ts'
import { signPermit } from '../../support/payer/sign-permit.ts'
import { newRateBuckets, terms } from '../routes/compose-app.ts'

const MAXIMUM = atomicAmount(5034n)
const faults: readonly (readonly [string, RpcFault])[] = [
  ['resets the connection', { kind: 'reset' }],
  ['loses its response', { kind: 'lost_answer' }],
  ['returns 500', { kind: 'status', status: 500 }],
  ['returns 429', { kind: 'status', status: 429 }],
  ['returns 401', { kind: 'status', status: 401 }],
  ['returns an internal error (-32603)', { kind: 'error', code: -32603, message: 'internal error' }],
  ['reports that it is overloaded', { kind: 'error', code: -32005, message: 'limit exceeded' }],
  ['does not know the method', { kind: 'error', code: -32601, message: 'method not found' }],
  ['returns truncated JSON', { kind: 'invalid_json' }],
  ['returns a web page', { kind: 'html' }],
  ['returns an empty body', { kind: 'empty' }],
]
const challengeOf = (authorization: Authorization) =>
  ({ quote: { quotedMaximum: authorization.authorizedMaximum, terms: {} } }) as unknown as Challenge
function flipped(hex: `0x${string}`, index: number): `0x${string}` {
  const digit = hex[index] === 'a' ? 'b' : 'a'
  return `${hex.slice(0, index)}${digit}${hex.slice(index + 1)}` as `0x${string}`
}

describe('the verifier of authorizations', () => {
  let devnet: TestDevnet
  let proxy: RpcProxy
  let verifier: AuthorizationVerifier
  beforeAll(async () => {
    devnet = await startTestDevnet()
    proxy = await startRpcProxy(devnet.rpcUrl)
    verifier = createAuthorizationVerifier(createChainClient(proxy.url, PATIENCE_MS), 8453)
  })

  afterEach(() => {
    proxy.setFault(null)
    proxy.chooseFault(() => null)
  })

  afterAll(async () => {
    await proxy.stop()
    await devnet.stop()
  })

  describe('verifying a payment that could be settled now', () => {
    it('accepts a gas-sponsoring permit without gas or allowance, with three concurrent RPC calls', async () => {
      const payer = await createPayer(devnet.rpcUrl)
      const calls = proxy.calls.length
      expect(await verifier.verify(await signAuthorization(devnet, payer), MAXIMUM)).toEqual({
        outcome: 'valid',
        needsPermit: true,
      })
      expect(proxy.calls.slice(calls).sort()).toEqual(['eth_call', 'eth_call', 'eth_getCode'])
      expect(await devnet.permit2Allowance(payer.address)).toBe(0n)
    })

    it('accepts an allowance without a permit, with two concurrent RPC calls', async () => {
      const payer = await createPayer(devnet.rpcUrl)
      await payer.approve()
      const authorization = await signAuthorization(devnet, payer, { gasSponsored: false })
      const calls = proxy.calls.length
      expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
      expect(proxy.calls.slice(calls).sort()).toEqual(['eth_call', 'eth_getCode'])
    })

    it('accepts an allowance with a permit that was used before', async () => {
      const payer = await createPayer(devnet.rpcUrl)
      await payer.approve()
      const authorization = await signAuthorization(devnet, payer, { permitNonce: 9n })
      expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
    })

    it('accepts a payer whose balance is exactly the amount', async () => {
      const payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 5034n })
      expect(await verifier.verify(await signAuthorization(devnet, payer), MAXIMUM)).toEqual({
        outcome: 'valid',
        needsPermit: true,
      })
    })

    it('needs the permit only when the allowance is below the amount', async () => {
      const payer = await createPayer(devnet.rpcUrl)
      await payer.approve(5034n)
      expect(await verifier.verify(await signAuthorization(devnet, payer), MAXIMUM)).toEqual({
        outcome: 'valid',
        needsPermit: false,
      })
      await payer.approve(5033n)
      expect(await verifier.verify(await signAuthorization(devnet, payer), MAXIMUM)).toEqual({
        outcome: 'valid',
        needsPermit: true,
      })
    })
  })

  async function refusalOf(changes: AuthorizationChanges, funds = 1_000_000n, allowance = true) {
    const payer = await createPayer(devnet.rpcUrl, { usdcAtomic: funds })
    if (allowance) await payer.approve()
    return await verifier.verify(await signAuthorization(devnet, payer, { gasSponsored: false, ...changes }), MAXIMUM)
  }
  describe('verifying a payment that the chain rejects', () => {
    test('refuses a balance that is one atomic unit too low with insufficient_funds and both amounts', async () => {
      expect(await refusalOf({}, 5033n)).toEqual({
        outcome: 'refused',
        code: 'insufficient_funds',
        detail: 'The payer has 0.005033 USDC; 0.005034 USDC is needed.',
      })
    })

    test('refuses a payment without allowance or permit with permit2_allowance_required', async () => {
      expect(await refusalOf({}, 1_000_000n, false)).toEqual({
        outcome: 'refused',
        code: 'permit2_allowance_required',
        permitNonce: 0n,
      })
    })

    test('refuses a permit that the token rejects with payment_rejected', async () => {
      expect(await refusalOf({ gasSponsored: true, permitNonce: 9n }, 1_000_000n, false)).toMatchObject({
        outcome: 'refused',
        code: 'payment_rejected',
        detail: expect.stringContaining('gas-sponsoring permit'),
      })
    })

    test('a permit whose nonce another payment has used in the meantime is a wait: permit_already_used', async () => {
      const payer = await createPayer(devnet.rpcUrl)
      const stale = await signAuthorization(devnet, payer)
      const permit = { owner: payer.address, value: 1n, deadline: secondsFromNow(600), nonce: 0n }
      const terms = { ...permit, spender: PERMIT2_ADDRESS, amount: permit.value } as const
      const call = permitCall({ ...permit, signature: await signPermit(payer.account, terms) })
      await sendAs({ address: ELSEWHERE, rpcUrl: devnet.rpcUrl }, call)
      expect(await verifier.verify(stale, MAXIMUM)).toEqual({ outcome: 'refused', code: 'permit_already_used' })
    })

    test('refuses an invalidated nonce with payment_nonce_used', async () => {
      const payer = await createPayer(devnet.rpcUrl)
      const authorization = await signAuthorization(devnet, payer)
      await payer.invalidateNonce(authorization.nonce)
      expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'refused', code: 'payment_nonce_used' })
    })

    const rejected: readonly (readonly [string, () => AuthorizationChanges])[] = [
      ['a signature of another key', () => ({ signer: privateKeyToAccount(generatePrivateKey()) })],
      ['a deadline that has passed', () => ({ deadline: 1n })],
      ['a start in the future', () => ({ validAfter: BigInt(Math.floor(Date.now() / 1000) + 3600) })],
      ['a maximum below the amount', () => ({ authorizedMaximum: 5033n })],
    ]
    test.each(rejected)('refuses %s', async (_, changes) => {
      expect(await refusalOf(changes())).toMatchObject({ outcome: 'refused' })
    })
  })

  /** Applies a fault to the `first` to the `last` of the following contract calls. */
  function failCalls(fault: RpcFault, { first, last = Number.POSITIVE_INFINITY }: { first: number; last?: number }) {
    let count = 0
    proxy.chooseFault(({ method }) => {
      if (method !== 'eth_call') return null
      count += 1
      return count >= first && count <= last ? fault : null
    })
  }
  describe('verifying while the network fails', () => {
    let good: Authorization
    let bad: Authorization
    beforeAll(async () => {
      good = await signAuthorization(devnet, await createPayer(devnet.rpcUrl))
      bad = await signAuthorization(devnet, await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
    })

    it.each(faults)('reports unreachable when the node %s at the simulation', async (_, fault) => {
      for (const authorization of [good, bad]) {
        // Only once: a wrongly started diagnosis would get its answers.
        failCalls(fault, { first: 1, last: 1 })
        expect(await verifier.verify(authorization, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
      }
    })

    it('reports unreachable when nothing listens at the node’s address', async () => {
      const gone = createAuthorizationVerifier(createChainClient('http://127.0.0.1:1'), 8453)
      expect(await gone.verify(good, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
    })

    it('reports unreachable when the node never answers', async () => {
      proxy.setFault({ kind: 'hang' })
      const impatient = createAuthorizationVerifier(createChainClient(proxy.url, 100), 8453)
      expect(await impatient.verify(good, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
    })

    it.each(faults)('reports unreachable when the node %s at the diagnosis of a refusal', async (_, fault) => {
      failCalls(fault, { first: 3 })
      expect(await verifier.verify(bad, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
    })

    it.each([
      [3, 'execution reverted'],
      [-32000, 'execution reverted: 0x756688fe'],
    ])('treats %i "%s" from a node as a revert and refuses the payment', async (code, message) => {
      failCalls({ kind: 'error', code, message }, { first: 1, last: 1 })
      expect(await verifier.verify(bad, MAXIMUM)).toMatchObject({ outcome: 'refused', code: 'insufficient_funds' })
    })
  })

  describe('checking the signature', () => {
    it('verifies a signature without the network', async () => {
      const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl))
      const calls = proxy.calls.length
      expect(verifier.isSignedByPayer(authorization)).toBe('key')
      expect(proxy.calls).toHaveLength(calls)
    })

    const changes: readonly (readonly [string, (signed: Authorization) => Partial<Authorization>])[] = [
      ['payer', () => ({ payer: '0x1111111111111111111111111111111111111111' })],
      ['recipient', () => ({ payTo: '0x1111111111111111111111111111111111111111' })],
      ['facilitator', () => ({ facilitator: '0x1111111111111111111111111111111111111111' })],
      ['spender', () => ({ spender: '0x1111111111111111111111111111111111111111' })],
      ['asset', () => ({ asset: '0x1111111111111111111111111111111111111111' })],
      ['maximum', () => ({ authorizedMaximum: atomicAmount(5035n) })],
      ['nonce', ({ nonce }) => ({ nonce: nonce ^ 1n })],
      ['deadline', ({ deadline }) => ({ deadline: deadline + 1n })],
      ['start', () => ({ validAfter: 1n })],
      ['signature', ({ signature }) => ({ signature: flipped(signature, 10) })],
      ['length of the signature', ({ signature }) => ({ signature: signature.slice(0, -2) as `0x${string}` })],
      ['curve point of the signature', () => ({ signature: `0x${'ff'.repeat(65)}` })],
      ['signature to a single byte', () => ({ signature: '0x00' })],
    ]
    it.each(changes)('rejects a signature after a change of the %s', async (_, change) => {
      const signed = await signAuthorization(devnet, await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
      expect(verifier.isSignedByPayer({ ...signed, ...change(signed) })).toBe('no')
    })

    it('rejects a signature for another chain', async () => {
      const signed = await signAuthorization(devnet, await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
      const otherChain = createAuthorizationVerifier(createChainClient(proxy.url), 1)
      expect(otherChain.isSignedByPayer(signed)).toBe('no')
    })
  })
})

describe('verifying one authorization on chain', () => {
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
  function startVerifying({
    newPayersPerMinute = 1000,
    contract = null,
    isListedOnChain = null,
  }: {
    newPayersPerMinute?: number
    contract?: `0x${string}` | null
    isListedOnChain?: PayerScreen['isListedOnChain']
  } = {}) {
    const client = createChainClient(proxy.url, PATIENCE_MS)
    const payers = createPayerMemory()
    const stored = new Map<string, AllowancePermit>()
    const dependencies = {
      terms: { ...terms, settlementContract: contract },
      verifier: contract
        ? createContractVerifier({ rpcUrl: proxy.url, contract })
        : createAuthorizationVerifier(client, 8453),
      chainClock: { chainNow: async () => new Date() },
      balances: createBalanceReader(client),
      payers,
      limitVerifications: createVerificationLimiter(newRateBuckets(), newPayersPerMinute),
      publicBaseUrl: 'https://api.farebox.example',
      challengeSecrets: ['a secret of challenges'] as const,
      permitStore: {
        findStoredPermit: async (owner: string) => stored.get(owner) ?? null,
        forgetStoredPermit: async ({ owner }: { owner: string }) => void stored.delete(owner),
      },
      payerFunds: createPayerFundsReader(client, () => performance.now()),
      requireFees: () => Promise.resolve(),
      payerScreen: { isRefused: () => false, isListedOnChain },
      now: () => new Date(),
    }
    const messageOf = async (authorization: Authorization) => (await refusalOf(authorization, '203.0.113.1'))?.message
    const verify = async (authorization: Authorization, address = '203.0.113.1') => {
      const callsBefore = proxy.calls.length
      const refusal = await refusalOf(authorization, address)
      const outcome = refusal?.code ?? 'verified'
      return { outcome, calls: proxy.calls.length - callsBefore, permit: refusal?.members['permit'] }
    }
    const accept = (
      authorization: Authorization,
      address = '203.0.113.1',
      storedPermit = stored.get(authorization.payer) ?? null,
    ) => {
      const payment = {
        authorization,
        isProven: dependencies.verifier.isSignedByPayer(authorization) === 'key',
        isWrapped: false,
        challengeTokenSha256: '',
        challengeExpiresAt: new Date(Date.now() + 600_000),
        alteredTerm: null,
        storedPermit,
      }
      return verifyAuthorization(dependencies, payment, challengeOf(authorization), { ip: address })
    }
    const refusalOf = async (authorization: Authorization, address: string): Promise<AppError | null> => {
      try {
        await accept(authorization, address)
        return null
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        // The handler remembers a refusal once it is certain that the payment did not settle meanwhile.
        return payers.rememberRefusal(authorization, error, challengeOf(authorization))
      }
    }
    return { verify, messageOf, payers, accept, stored }
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

  describe('a list on chain of who may not pay', () => {
    const oracle = `0x${'3c'.repeat(20)}` as const
    // Runtime code that answers every call with 0 or 1.
    const setAnswer = (word: 0 | 1) => callRpc(devnet.rpcUrl, 'anvil_setCode', [oracle, `0x600${word}60005260206000f3`])
    const startScreening = (newPayersPerMinute?: number) =>
      startVerifying({
        isListedOnChain: createScreeningOracle(createChainClient(proxy.url, PATIENCE_MS), oracle),
        ...(newPayersPerMinute === undefined ? {} : { newPayersPerMinute }),
      })

    it('refuses a payer whom it names by one call, and no other reading of the payment', async () => {
      await setAnswer(1)
      const { verify } = startScreening()
      const payment = await sign(await createPayer(devnet.rpcUrl))
      expect(await verify(payment)).toEqual({ outcome: 'payer_blocked', calls: 1 })
      await setAnswer(0)
      expect((await startScreening().verify(payment)).outcome).toBe('verified')
    })

    it('is asked no more about new payers of an address than it may have verified', async () => {
      await setAnswer(1)
      const { verify } = startScreening(2)
      for (let sent = 0; sent < 2; sent += 1)
        expect(await verify(await sign(await emptyPayer()))).toEqual({ outcome: 'payer_blocked', calls: 1 })
      expect(await verify(await sign(await emptyPayer()))).toEqual({ outcome: 'rate_limited', calls: 0 })
      expect((await verify(await sign(await emptyPayer()), '203.0.113.2')).outcome).toBe('payer_blocked')
    })

    it('lets nobody pay while it cannot be read', async () => {
      await setAnswer(0)
      const { verify } = startScreening()
      const payment = await sign(await createPayer(devnet.rpcUrl))
      proxy.setFault({ kind: 'reset' })
      expect((await verify(payment)).outcome).toBe('payment_network_unavailable')
      proxy.setFault(null)
      expect((await verify(payment)).outcome).toBe('verified')
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

    it('a service that submits no permits asks for one that pays for exactly this payment', async () => {
      const { verify } = startVerifying()
      const payer = await createPayer(devnet.rpcUrl)
      const plain = { ...(await sign(payer)), gasSponsoring: null }
      const { permit } = await verify(plain)
      const { submit, typed_data: typedData } = permit as ReturnType<typeof requiredPermit>
      expect(submit).toBeNull()
      const { value, nonce, deadline } = typedData.message
      expect(value).toBe(plain.authorizedMaximum.toString())
      const toSign: TypedDataDefinition = typedData
      const signature = await payer.account.signTypedData(toSign)
      const { payer: from, asset } = plain
      const { spender } = typedData.message
      const signed = { from, asset, spender, amount: BigInt(value), nonce: BigInt(nonce), deadline: BigInt(deadline) }
      const gasSponsoring = { ...signed, signature } as NonNullable<Authorization['gasSponsoring']>
      expect((await verify({ ...plain, gasSponsoring })).outcome).toBe('verified')
    })

    it('a service with a settlement contract asks for a permit that lasts, and takes it with any number of payments', async () => {
      const { address: facilitator } = await deployTestContract(devnet, [devnet.accounts.settlement.address])
      const { verify } = startVerifying({ contract: facilitator })
      const payer = await createPayer(devnet.rpcUrl)
      const { permit } = await verify(await signAuthorization(devnet, payer, { facilitator, gasSponsored: false }))
      const { submit, typed_data: typedData } = permit as ReturnType<typeof requiredPermit>
      expect(submit).toEqual({ method: 'POST', url: 'https://api.farebox.example/v1/allowances' })
      const { value, nonce, deadline } = typedData.message
      const permitAmount = BigInt(value)
      expect(permitAmount).toBe(maxUint256)
      const terms = { permitAmount, permitNonce: BigInt(nonce), permitDeadline: BigInt(deadline), facilitator }
      for (let call = 0; call < 2; call += 1)
        expect((await verify(await signAuthorization(devnet, payer, terms))).outcome).toBe('verified')
    })

    it('a lasting permit is refused without a settlement contract, before any RPC call and in words', async () => {
      const { verify, messageOf } = startVerifying()
      const payer = await createPayer(devnet.rpcUrl, { approved: true })
      const lasting = await signAuthorization(devnet, payer, { permitAmount: 100_000n })
      expect(await verify(lasting)).toMatchObject({ outcome: 'payment_rejected', calls: 0 })
      const other = await signAuthorization(devnet, payer, { permitAmount: 100_000n })
      expect(await messageOf(other)).toMatch(
        'amount is more than the signed maximum, and this service takes no lasting',
      )
    })

    it('a lasting permit is refused for a payer who did not sign it, although the allowance suffices for one call', async () => {
      const { address: facilitator } = await deployTestContract(devnet, [devnet.accounts.settlement.address])
      const { verify, messageOf } = startVerifying({ contract: facilitator })
      const payer = await createPayer(devnet.rpcUrl, { approved: true })
      const signed = await signAuthorization(devnet, payer, { facilitator, permitAmount: 100_000n })
      const gasSponsoring = signed.gasSponsoring && { ...signed.gasSponsoring, amount: 200_000n }
      expect((await verify({ ...signed, gasSponsoring })).outcome).toBe('payment_rejected')
      expect(await messageOf({ ...signed, nonce: 1n, gasSponsoring })).toMatch('not signed by the payer')
      expect((await verify(signed)).outcome).toBe('verified')
      // As some hardware wallets write it.
      const signature = signed.gasSponsoring?.signature.replace(/1b$/, '00').replace(/1c$/, '01') as `0x${string}`
      const byHardware = { ...signed, gasSponsoring: signed.gasSponsoring && { ...signed.gasSponsoring, signature } }
      expect((await verify(byHardware)).outcome).toBe('verified')
    })

    it('a lasting permit is refused with a payment that a key would settle: no contract is there to submit it', async () => {
      const { address } = await deployTestContract(devnet, [devnet.accounts.settlement.address])
      const { verify } = startVerifying({ contract: address })
      for (const approved of [true, false]) {
        const payer = await createPayer(devnet.rpcUrl, { approved })
        const toKey = await signAuthorization(devnet, payer, { permitAmount: 100_000n })
        expect((await verify(toKey)).outcome).toBe('payment_rejected')
      }
    })

    it('a lasting permit that was used up asks for the next one, as a conflict that a fresh payment ends', async () => {
      const { address: facilitator } = await deployTestContract(devnet, [devnet.accounts.settlement.address])
      const { verify } = startVerifying({ contract: facilitator })
      const payer = await createPayer(devnet.rpcUrl)
      const signed = await signAuthorization(devnet, payer, { facilitator, permitAmount: 100_000n })
      const { amount: value, ...permit } = signed.gasSponsoring as NonNullable<Authorization['gasSponsoring']>
      const { to, data } = permitCall({ owner: payer.address, value, ...permit })
      await payer.invalidateNonce(0n)
      await sendAs(payer, { to, data })
      expect((await verify(signed)).outcome).toBe('verified')
      await payer.approve(0n)
      const again = await signAuthorization(devnet, payer, { facilitator, permitAmount: 100_000n })
      expect((await verify(again)).outcome).toBe('permit_already_used')
    })

    it('an allowance granted after a refusal is found with a permit attached to the same payment', async () => {
      const { verify } = startVerifying()
      const payer = await createPayer(devnet.rpcUrl)
      const withPermit = await sign(payer)
      expect((await verify({ ...withPermit, gasSponsoring: null })).outcome).toBe('permit2_allowance_required')
      expect((await verify(withPermit)).outcome).toBe('verified')
    })
  })

  describe('a payment of a wallet that has stored a permit', () => {
    let facilitator: `0x${string}`
    beforeAll(async () => {
      facilitator = (await deployTestContract(devnet, [devnet.accounts.settlement.address])).address
    })
    const startStoring = async (changes: Partial<AllowancePermit> = {}, options: { contract?: null } = {}) => {
      const started = startVerifying({ contract: facilitator, ...options })
      const payer = await createPayer(devnet.rpcUrl)
      const permit = await signAllowancePermit(payer, changes)
      started.stored.set(payer.address, permit)
      return { ...started, payer, permit }
    }
    const signOwn = (payer: Payer, changes: AuthorizationChanges = {}) =>
      signAuthorization(devnet, payer, { facilitator, gasSponsored: true, ...changes })

    it.each([
      ['a permit of exactly its maximum', {}],
      ['no permit', { gasSponsored: false }],
      ['a lasting permit', { permitAmount: 200_000n }],
      ['a permit that has expired', { permitDeadline: secondsFromNow(-1) }],
    ])('uses the stored permit, and ignores what it brings itself: %s', async (_, changes) => {
      const { accept, payer, permit } = await startStoring()
      const { authorization, needsPermit } = await accept(await signOwn(payer, changes))
      const { value: amount, nonce, deadline, signature } = permit
      expect(authorization.gasSponsoring).toMatchObject({ from: payer.address, amount, nonce, deadline, signature })
      expect(needsPermit).toBe(false)
    })

    it.each([
      ['its deadline is before the settlement of the payment', { deadline: secondsFromNow(60) }, true],
      ['it is for less than the maximum', { value: MAXIMUM - 1n }, true],
      ['its nonce is a later one', { nonce: 1n }, true],
    ])('uses its own permit when the stored one is no use: %s', async (_, changes, isKept) => {
      const { accept, payer, stored } = await startStoring(changes)
      const signed = await signOwn(payer)
      expect((await accept(signed)).authorization).toBe(signed)
      expect(stored.has(payer.address)).toBe(isKept)
    })

    it.each([
      ['stored while a payment with a permit waited for its turn', { gasSponsored: true }, null, 'used'],
      ['that was stored when a payment without one arrived', { gasSponsored: false }, 'stored', 'used'],
      ['stored after a payment without one arrived', { gasSponsored: false }, null, 'permit2_allowance_required'],
    ] as const)('the permit %s', async (_, changes, atArrival, expected) => {
      const { accept, payer, permit, stored } = await startStoring()
      if (atArrival === 'stored') stored.clear()
      const signed = await signOwn(payer, changes)
      const outcome = await accept(signed, undefined, atArrival === 'stored' ? permit : null).then(
        ({ authorization }) => (authorization.gasSponsoring?.signature === permit.signature ? 'used' : 'not used'),
        (error: unknown) => (error instanceof AppError ? error.code : String(error)),
      )
      expect(outcome).toBe(expected)
    })

    it('uses its own permit once the nonce of the stored one is used, and forgets that one', async () => {
      const { accept, payer, stored, permit } = await startStoring()
      await payer.invalidateNonce(0n)
      await sendAs(payer, permitCall(permit))
      await payer.approve(0n)
      const own = await signOwn(payer, { permitNonce: 1n })
      expect(await accept(own)).toMatchObject({ authorization: own, needsPermit: true })
      expect(stored.has(payer.address)).toBe(false)
    })

    it('uses its own permit where it names a settlement key, which cannot bring a stored one', async () => {
      const { accept, payer } = await startStoring()
      const toKey = await signAuthorization(devnet, payer, { gasSponsored: true })
      expect((await accept(toKey)).authorization).toBe(toKey)
    })

    it('is refused for what the stored permit cannot cure: no funds, code, or an unreachable chain', async () => {
      const { verify, payer } = await startStoring()
      await payer.spendAll()
      expect((await verify(await signOwn(payer))).outcome).toBe('insufficient_funds')
      const coded = await startStoring()
      const signed = await signOwn(coded.payer)
      await callRpc(devnet.rpcUrl, 'anvil_setCode', [coded.payer.address, '0x600160005260206000f3'])
      expect((await coded.verify(signed)).outcome).toBe('payer_has_code')
      const cut = await startStoring()
      cut.payers.rememberVerified(cut.payer.address)
      proxy.setFault({ kind: 'reset' })
      expect((await cut.verify(await signOwn(cut.payer))).outcome).toBe('payment_network_unavailable')
      proxy.setFault(null)
    })
  })
})
