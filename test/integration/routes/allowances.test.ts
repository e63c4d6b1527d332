import type { FastifyInstance } from 'fastify'
import { maxUint256, numberToHex, parseSignature } from 'viem'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createAllowanceReader } from '#shared/chain/allowance/allowance-reader.ts'
import { expectedGasFor, permitCall } from '#shared/chain/allowance/permit-call.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createAllowanceRequestStore } from '#shared/ledger/allowances/allowance-store.ts'
import type { AllowanceOutcome } from '#shared/ledger/allowances/request-allowance.ts'
import type { SponsoringSettings } from '../../../api/allowances/request-allowance.ts'
import { createOutcomeAwaiter, type OutcomeAwaiter } from '../../../api/paid-request/job/await-outcome.ts'
import { createVerificationLimiter } from '../../../api/plugins/rate-limits.ts'
import { addAllowanceRoutes } from '../../../api/routes/allowances.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type ExpectedRefusal, expectErrorBody } from '../../support/http/expect-refusal.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, ELSEWHERE, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { PERMIT_TYPES } from '../../support/payer/sign-permit.ts'
import { admission, composeApp, limitRate, newAllowances, terms } from './compose-app.ts'

const SPONSORING: SponsoringSettings = {
  minimumBalance: 100_000n,
  perOwnerSeconds: 86_400,
  dailyGasWei: 10n ** 18n,
  needsPaidCall: false,
}
/** Callers wait this long for a worker, which these tests do not have. */
const HOLD_MS = 20
const QUICK_POLL_MS = 10

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }

let ledger: TestLedger
let devnet: TestDevnet
let proxy: RpcProxy
let outcomes: OutcomeAwaiter<AllowanceOutcome>
let store: ReturnType<typeof createAllowanceRequestStore>
const apps: FastifyInstance[] = []
const blocked = new Set<string>()
/** By the list on chain. */
const listed = new Set<string>()
/** Whom it was asked about. */
const asked: string[] = []
let url: string
/** Holds 1 USDC and never approves anything; tests that change a wallet take their own. */
let payer: Payer

beforeAll(async () => {
  ;[ledger, devnet] = await Promise.all([createTestLedger(), startTestDevnet()])
  proxy = await startRpcProxy(devnet.rpcUrl)
  store = createAllowanceRequestStore(ledger.pool, terms.network)
  const readOutcomes = (ids: readonly string[]) => store.readAllowanceOutcomes(ids)
  outcomes = createOutcomeAwaiter({ store: { readOutcomes }, logger: silent, isOpen }, QUICK_POLL_MS)
  url = await serve(SPONSORING)
  payer = await createPayer(devnet.rpcUrl)
})
afterEach(async () => {
  proxy.setFault(null)
  proxy.chooseFault(() => null)
  await ledger.sql('DELETE FROM sponsored_permits')
})
afterAll(async () => {
  await Promise.all(apps.map((app) => app.close()))
  outcomes.close()
  await proxy.stop()
  await Promise.all([ledger.close(), devnet.stop()])
})

/** Serves the routes with these limits, and returns their URL. */
async function serve(
  sponsoring: SponsoringSettings | null,
  verificationsPerMinute = 1_000_000,
  beforeSimulation = async () => {},
): Promise<string> {
  const client = createChainClient(proxy.url, PATIENCE_MS)
  const reader = createAllowanceReader(client, createFeeEstimator(client))
  const keys = [devnet.accounts.settlement.address.toLowerCase() as `0x${string}`]
  const app = await composeApp((routes) =>
    addAllowanceRoutes(routes, {
      allowanceRequests: {
        terms,
        keys,
        payerScreen: {
          isRefused: (owner) => blocked.has(owner),
          isListedOnChain: (owner) => {
            asked.push(owner)
            return Promise.resolve(listed.has(owner))
          },
        },
        reader: {
          ...reader,
          simulatePermit: async (...given) => {
            await beforeSimulation()
            return await reader.simulatePermit(...given)
          },
        },
        store,
        outcomes,
        sponsoring,
        now: () => new Date(),
      },
      limitRate,
      limitVerifications: createVerificationLimiter(newAllowances(), verificationsPerMinute),
      admission,
      holdMs: HOLD_MS,
      stopping: new AbortController().signal,
    }),
  )
  apps.push(app)
  return `${await app.listen({ host: '127.0.0.1', port: 0 })}/v1/allowances`
}

interface Signed {
  readonly spender?: `0x${string}`
  readonly asset?: `0x${string}`
  readonly chainId?: number
  readonly version?: string
  readonly value?: bigint
  readonly nonce?: bigint
  readonly deadline?: bigint
  readonly signer?: Payer
}

/** Signs a permit that is good but for `changes`, as the body's `permit`. */
async function permit(owner: Payer, changes: Signed = {}) {
  const { value = maxUint256, nonce = 0n, deadline = secondsFromNow(3600), signer = owner } = changes
  const { spender = DEVNET_ADDRESSES.permit2, asset = DEVNET_ADDRESSES.usdc } = changes
  const { chainId = DEVNET_CHAIN_ID, version = '2' } = changes
  const signature = await signer.account.signTypedData({
    domain: { name: 'USD Coin', version, chainId, verifyingContract: asset },
    types: PERMIT_TYPES,
    primaryType: 'Permit',
    message: { owner: owner.address, spender, value, nonce, deadline },
  })
  return { owner: owner.address as string, value: value.toString(), deadline: deadline.toString(), signature }
}

const isOpen = ({ state }: AllowanceOutcome) => state === 'pending'
const send = (body: unknown, to = url) =>
  fetch(to, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
const ask = async (body: unknown, to = url) => await send({ permit: body }, to)
const countRows = async () => (await ledger.sql('SELECT 1 FROM sponsored_permits')).length
const status = async (owner: string, from = url) =>
  (await (await fetch(`${from}?owner=${owner}`)).json()) as Readonly<Record<string, unknown>>

const refusedQuery = (query: string, code: string) =>
  fetch(`${url}${query}`).then((answer) => expectErrorBody(answer, { status: 400, code, param: 'owner' }))

/** Asserts a refusal after which nothing is requested. */
async function expectRefused(answer: Response, expected: ExpectedRefusal): Promise<void> {
  await expectErrorBody(answer, expected)
  expect(await countRows()).toBe(0)
}

/** Submits a permit as anyone may who has seen it. */
async function submitElsewhere(owner: Payer, changes: Signed = {}): Promise<void> {
  const { value, deadline, signature } = await permit(owner, changes)
  const numbers = { value: BigInt(value), deadline: BigInt(deadline), nonce: changes.nonce ?? 0n }
  const call = permitCall({ owner: owner.address, ...numbers, signature })
  await callRpc(devnet.rpcUrl, 'anvil_setBalance', [ELSEWHERE, numberToHex(10n ** 18n)])
  await callRpc(devnet.rpcUrl, 'anvil_impersonateAccount', [ELSEWHERE])
  const hash = await callRpc<`0x${string}`>(devnet.rpcUrl, 'eth_sendTransaction', [{ from: ELSEWHERE, ...call }])
  expect(await devnet.client.waitForTransactionReceipt({ hash })).toMatchObject({ status: 'success' })
}

describe('a permit that is accepted', () => {
  it('a good permit is requested once, and its caller gets 503 with a pause while no worker has confirmed it', async () => {
    const body = await permit(payer)
    const first = await ask(body)
    const { error } = await expectErrorBody(first, { status: 503, code: 'allowance_pending', param: null })
    expect(error).toMatchObject({ payment: 'none', retry: 'same_request' })
    expect(Number(first.headers.get('retry-after'))).toBeGreaterThan(0)
    await Promise.all([ask(body), ask(body), ask(body)])
    expect(await ledger.sql('SELECT owner, value, permit_nonce FROM sponsored_permits')).toEqual([
      { owner: payer.address, value: maxUint256.toString(), permit_nonce: '0' },
    ])
  })

  it('a permit that a concurrent request has had submitted since its simulation began is that request’s', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    const body = await permit(owner)
    const overtaken = await serve(SPONSORING, undefined, async () => {
      await ask(body)
      await submitElsewhere(owner, { deadline: BigInt(body.deadline) })
    })
    await expectErrorBody(await ask(body, overtaken), { status: 503, code: 'allowance_pending', param: null })
    expect(await countRows()).toBe(1)
  })

  it('a repeated permit is answered from the ledger, without a call of the chain', async () => {
    const body = await permit(payer)
    await ask(body)
    const before = proxy.calls.length
    await expectErrorBody(await ask(body), { status: 503, code: 'allowance_pending', param: null })
    expect(proxy.calls.length).toBe(before)
  })

  it.each(['v, r and s', 'the compact form of EIP-2098', 'a v of 0 or 1', 'integers', 'the whole message'])(
    'a permit may be sent with %s',
    async (form) => {
      const nonce = 0n
      const deadline = secondsFromNow(3600)
      const { signature, ...rest } = await permit(payer, { value: 5_000_000n, deadline })
      const { r, s, yParity } = parseSignature(signature)
      const compact = BigInt(s) | (BigInt(yParity) << 255n)
      const forms: Record<string, object> = {
        'v, r and s': { ...rest, v: 27 + yParity, r, s },
        'the compact form of EIP-2098': { ...rest, signature: `${r}${numberToHex(compact, { size: 32 }).slice(2)}` },
        'a v of 0 or 1': { ...rest, signature: `${signature.slice(0, 130)}0${yParity}` },
        integers: { ...rest, owner: payer.account.address, value: 5_000_000, deadline: Number(deadline), signature },
        'the whole message': { ...rest, spender: DEVNET_ADDRESSES.permit2, nonce: nonce.toString(), signature },
      }
      await expectErrorBody(await ask(forms[form]), { status: 503, code: 'allowance_pending', param: null })
      expect(await ledger.sql('SELECT signature, value FROM sponsored_permits')).toEqual([
        { signature, value: '5000000' },
      ])
    },
  )

  it('an allowance that suffices is a success without a transaction', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    await owner.approve()
    const answer = await ask(await permit(owner, { value: 1_000_000n }))
    expect([answer.status, await answer.json()]).toEqual([
      200,
      {
        object: 'allowance',
        network: 'eip155:8453',
        asset: terms.asset,
        owner: owner.address,
        spender: terms.permit2,
        allowance: maxUint256.toString(),
        transaction: null,
        block: expect.any(Number),
      },
    ])
    expect(await countRows()).toBe(0)
  })

  it('a permit that somebody else submitted is a success while its allowance suffices', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    const deadline = secondsFromNow(3600)
    await submitElsewhere(owner, { deadline })
    const answer = await ask(await permit(owner, { deadline }))
    expect([answer.status, await answer.json()]).toMatchObject([
      200,
      { allowance: maxUint256.toString(), transaction: null },
    ])
  })
})

describe('a permit that is refused', () => {
  const NEEDED = ['USD Coin', 'version "2"', 'chainId 8453', terms.asset, terms.permit2, 'nonce 0']
  const wrong: [what: string, changes: () => Promise<Signed>][] = [
    ['another spender', async () => ({ spender: ELSEWHERE })],
    ['another token', async () => ({ asset: ELSEWHERE })],
    ['another chain', async () => ({ chainId: 1 })],
    ['another version of the domain', async () => ({ version: '1' })],
    ['a later nonce', async () => ({ nonce: 1n })],
    ['another signer', async () => ({ signer: await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }) })],
  ]
  it.each(wrong)('a permit of %s is refused with everything that must be signed', async (_, changes) => {
    const answer = await ask(await permit(payer, await changes()))
    await expectRefused(answer, { status: 400, code: 'permit_invalid', param: 'permit.signature', says: NEEDED })
    expect(answer.headers.get('x-should-retry')).toBe('false')
  })

  it('a permit whose value, deadline or owner was changed is refused', async () => {
    const good = await permit(payer)
    const other = await createPayer(devnet.rpcUrl)
    const changed = [
      { ...good, value: '1000000' },
      { ...good, deadline: (BigInt(good.deadline) + 1n).toString() },
      { ...good, owner: other.address },
    ]
    for (const body of changed)
      await expectRefused(await ask(body), { status: 400, code: 'permit_invalid', param: 'permit.signature' })
  })

  it('a signature with a high s is refused before the chain is asked', async () => {
    const { signature, ...rest } = await permit(payer)
    const { r, s, yParity } = parseSignature(signature)
    const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
    const high = numberToHex(order - BigInt(s), { size: 32 })
    const before = proxy.calls.length
    for (const body of [
      { ...rest, r, s: high, v: 28 - yParity },
      { ...rest, signature: `${r}${high.slice(2)}${(28 - yParity).toString(16)}` },
    ])
      await expectRefused(await ask(body), {
        status: 400,
        code: 'permit_invalid',
        param: expect.stringMatching(/^permit\.(s|signature)$/) as never,
      })
    expect(proxy.calls.length).toBe(before)
  })

  it.each([
    ['has passed', -1],
    ['is too close', 290],
  ])('a permit whose deadline %s is refused before the chain is asked', async (_, seconds) => {
    const before = proxy.calls.length
    const answer = await ask(await permit(payer, { deadline: secondsFromNow(seconds) }))
    await expectRefused(answer, {
      status: 400,
      code: 'permit_expired',
      param: 'permit.deadline',
      says: ['300 seconds'],
    })
    expect(proxy.calls.length).toBe(before)
  })

  it('a permit that was used before is refused when its allowance is spent', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    const deadline = secondsFromNow(3600)
    await submitElsewhere(owner, { deadline, value: 200_000n })
    await owner.approve(0n)
    await expectRefused(await ask(await permit(owner, { deadline, value: 200_000n })), {
      status: 400,
      code: 'permit_invalid',
      param: 'permit.nonce',
      says: ['nonce 0, which is used', 'nonce 1'],
    })
  })

  it('an owner who may not pay is refused before the chain is asked', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    const signed = await permit(owner)
    blocked.add(owner.address.toLowerCase())
    const callsBefore = proxy.calls.length
    await expectRefused(await ask(signed), { status: 409, code: 'payer_blocked', param: null })
    expect(proxy.calls).toHaveLength(callsBefore)
    blocked.clear()
    listed.add(owner.address.toLowerCase())
    await expectRefused(await ask(signed), { status: 409, code: 'payer_blocked', param: null })
    expect(proxy.calls).toHaveLength(callsBefore)
    listed.clear()
    expect((await ask(signed)).status).toBe(503)
  })

  it('an owner without enough USDC is refused with the amount', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 99_999n })
    await expectRefused(await ask(await permit(poor)), {
      status: 409,
      code: 'owner_balance_too_low',
      param: null,
      says: ['0.099999', '0.1 USDC'],
    })
  })

  it('a value that is no lasting allowance is refused before the chain is asked', async () => {
    const before = proxy.calls.length
    const answer = await ask(await permit(payer, { value: 99_999n }))
    await expectRefused(answer, { status: 400, code: 'invalid_field', param: 'permit.value', says: ['100000'] })
    expect(proxy.calls.length).toBe(before)
  })

  it('an owner whose account has code is refused and can approve Permit2 in a transaction', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    await callRpc(devnet.rpcUrl, 'anvil_setCode', [owner.address, '0x600160005260206000f3'])
    const signed = await permit(owner)
    for (const body of [signed, { ...signed, signature: `0x${'11'.repeat(32)}${'22'.repeat(32)}1b` }])
      await expectRefused(await ask(body), {
        status: 400,
        code: 'owner_has_code',
        param: null,
        says: ['transaction of its own'],
      })
  })

  const malformed: [what: string, change: (good: Record<string, unknown>) => unknown, code: string, param: string][] = [
    ['no owner', (good) => ({ ...good, owner: undefined }), 'missing_field', 'permit.owner'],
    ['no signature', (good) => ({ ...good, signature: undefined }), 'missing_field', 'permit.signature'],
    ['two forms of a signature', (good) => ({ ...good, v: 27 }), 'invalid_field', 'permit.signature'],
    ['a short owner', (good) => ({ ...good, owner: '0x12' }), 'invalid_field', 'permit.owner'],
    ['another spender', (good) => ({ ...good, spender: ELSEWHERE }), 'invalid_field', 'permit.spender'],
    ['a negative value', (good) => ({ ...good, value: '-1' }), 'invalid_field', 'permit.value'],
    ['a value that JSON rounds', (good) => ({ ...good, value: 2 ** 60 }), 'invalid_field', 'permit.value'],
    ['a value of 257 bits', (good) => ({ ...good, value: (1n << 256n).toString() }), 'invalid_field', 'permit.value'],
    ['a fractional deadline', (good) => ({ ...good, deadline: 1.5 }), 'invalid_field', 'permit.deadline'],
    ['a contract’s signature', (good) => ({ ...good, signature: '0x1234' }), 'invalid_field', 'permit.signature'],
    ['an unknown field', (good) => ({ ...good, amount: '1' }), 'unknown_field', 'amount'],
    ['nothing', () => undefined, 'missing_field', 'permit'],
    ['a text', () => 'permit', 'invalid_field', 'permit'],
  ]
  it.each(malformed)('a body with %s is refused', async (_, change, code, param) => {
    await expectRefused(await ask(change(await permit(payer))), { status: 400, code, param })
  })

  it('a body that is no object, is too long or is no JSON is refused', async () => {
    for (const body of [[], null, 'permit'])
      await expectRefused(await send(body), { status: 400, code: 'invalid_field', param: null })
    const long = { permit: { ...(await permit(payer)), owner: 'a'.repeat(9000) } }
    await expectRefused(await send(long), { status: 413, code: 'body_too_large', param: null })
    const form = await fetch(url, { method: 'POST', body: new URLSearchParams({ owner: payer.address }) })
    await expectRefused(form, { status: 415, code: 'unsupported_content_type', param: null })
  })
})

describe('limits of sponsored permits', () => {
  it('a second permit of an owner is refused while the first one counts, with the alternatives', async () => {
    await ask(await permit(payer))
    const answer = await ask(await permit(payer, { value: 1_000_000n }))
    await expectErrorBody(answer, {
      status: 429,
      code: 'owner_allowance_limit',
      param: null,
      says: ['transaction of your own', 'one at a time'],
    })
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await countRows()).toBe(1)
  })

  it('a permit that was given up because fees rose may be signed again immediately', async () => {
    const body = await permit(payer)
    await ask(body)
    await ledger.sql(
      `UPDATE sponsored_permits SET state = 'failed', failure_code = 'gas_unavailable', finished_at = now(),
       facilitator = '0x01', account_nonce = 0, block_number = 1, block_hash = '0x02', transaction_hash = '0x03',
       gas_used = 21000, effective_gas_price = 1, gas_wei = 21000, gas_cost = 1`,
    )
    await expectErrorBody(await ask(body), {
      status: 400,
      code: 'permit_rejected',
      param: null,
      says: ['0x03', 'fees rose', 'another deadline'],
    })
    const again = await ask(await permit(payer, { deadline: secondsFromNow(7200) }))
    await expectErrorBody(again, { status: 503, code: 'allowance_pending', param: null })
  })

  it('a permit that could cost more than is left of the day is refused for every owner', async () => {
    const limited = await serve({ ...SPONSORING, dailyGasWei: 1n })
    const answer = await ask(await permit(payer), limited)
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    await expectRefused(answer, { status: 429, code: 'sponsored_gas_limit', param: null, says: ['one at a time'] })
  })

  it('of many permits at the same time, no more are requested than the ceiling allows', async () => {
    const owners = await Promise.all(Array.from({ length: 8 }, () => createPayer(devnet.rpcUrl)))
    const fees = await createFeeEstimator(createChainClient(proxy.url, PATIENCE_MS))()
    const limited = await serve({ ...SPONSORING, dailyGasWei: 120_000n * fees.maxFeePerGas * 4n })
    const answers = await Promise.all(owners.map(async (owner) => (await ask(await permit(owner), limited)).status))
    const rows = await ledger.sql<{ reserved: string }>('SELECT expected_gas_wei AS reserved FROM sponsored_permits')
    expect(rows.length).toBe(answers.filter((answer) => answer === 503).length)
    expect(rows.length).toBeGreaterThan(0)
    expect(rows.length).toBeLessThan(8)
    const total = rows.reduce((sum, { reserved }) => sum + BigInt(reserved), 0n)
    // None of them has paid before.
    expect(total).toBeLessThanOrEqual(120_000n * fees.maxFeePerGas)
  })

  it('a permit in progress counts about 1.2 times what it costs at the fees of the moment, and not its fee cap', async () => {
    await ask(await permit(payer))
    const [row] = await ledger.sql<{ expected: string; reserved: string }>(
      'SELECT expected_gas_wei AS expected, reserved_gas_wei AS reserved FROM sponsored_permits',
    )
    // The most that it may cost is 120,000 gas at twice a fee cap of twice the base fee.
    expect(BigInt(row?.expected ?? 0) * 2n).toBeLessThan(BigInt(row?.reserved ?? 0))
    const { owner, value, deadline, signature } = await permit(payer)
    const typed = {
      owner: owner as `0x${string}`,
      value: BigInt(value),
      nonce: 0n,
      deadline: BigInt(deadline),
      signature,
    }
    const used = await devnet.client.estimateGas({
      ...permitCall(typed),
      account: devnet.accounts.settlement.address,
    })
    const expectedGas = expectedGasFor({
      baseFeePerGas: 1n,
      maxPriorityFeePerGas: 0n,
      maxFeePerGas: 2n,
    })
    const ratio = Number(expectedGas) / Number(used)
    // USDC on Base uses about 10,000 gas more, for which it is 1.15.
    expect(ratio).toBeGreaterThan(1.1)
    expect(ratio).toBeLessThan(1.4)
  })

  it('a wallet that never paid is told to attach its permit to a payment, before any work, where a contract submits it', async () => {
    const withContract = await serve({ ...SPONSORING, needsPaidCall: true })
    const before = proxy.calls.length
    const answer = await ask(await permit(payer), withContract)
    expect(answer.headers.get('x-should-retry')).toBe('false')
    await expectRefused(answer, {
      status: 409,
      code: 'permit_travels_with_payment',
      param: null,
      says: ['first paid call', 'eip2612GasSponsoring', 'larger amount'],
    })
    expect(proxy.calls.length).toBe(before)
    expect((await status(payer.address, withContract))['sponsoring']).toMatchObject({
      available: false,
      reason: 'permit_travels_with_payment',
      message: expect.stringContaining('eip2612GasSponsoring'),
    })
  })

  it('a wallet that has paid is sponsored also where a contract submits the permits of others', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    const authorization = testAuthorization({ payer: owner.address })
    await jobInState(ledger, 'completed', newTestJob({ authorization }))
    const withContract = await serve({ ...SPONSORING, needsPaidCall: true })
    expect((await status(owner.address, withContract))['sponsoring']).toMatchObject({ available: true })
    await expectErrorBody(await ask(await permit(owner), withContract), {
      status: 503,
      code: 'allowance_pending',
      param: null,
    })
  })

  it('a service that sponsors nothing says so, and what to do instead', async () => {
    const off = await serve(null)
    const answer = await ask(await permit(payer), off)
    expect(answer.headers.get('x-should-retry')).toBe('false')
    await expectRefused(answer, {
      status: 503,
      code: 'sponsoring_disabled',
      param: null,
      says: ['transaction of your own'],
    })
    expect((await status(payer.address, off))['sponsoring']).toMatchObject({
      available: false,
      reason: 'sponsoring_disabled',
    })
  })

  it('permits that cost RPC calls are limited for each network of clients', async () => {
    const limited = await serve(SPONSORING, 2)
    const forged = { ...(await permit(payer)), value: '1000000' }
    for (let index = 0; index < 2; index += 1) await ask(forged, limited)
    const before = [proxy.calls.length, asked.length]
    await expectRefused(await ask(forged, limited), { status: 429, code: 'rate_limited', param: null })
    expect([proxy.calls.length, asked.length]).toEqual(before)
  })
})

describe('a chain that fails', () => {
  const UNREACHABLE = { status: 503, code: 'payment_network_unavailable', param: null, says: ['Nothing was sent'] }

  it('nothing is requested while the owner cannot be read, or the permit cannot be simulated', async () => {
    const body = await permit(payer)
    const [reads, code, simulates] = ['0xca11bde05977b3631167028862be2a173976ca11', 'eth_getCode', '0xd505accf']
    for (const failing of [reads, code, simulates]) {
      proxy.chooseFault((call) => (JSON.stringify(call).includes(failing) ? { kind: 'status', status: 502 } : null))
      await expectRefused(await ask(body), UNREACHABLE)
    }
    proxy.chooseFault(() => null)
    await expectErrorBody(await ask(body), { status: 503, code: 'allowance_pending', param: null })
  })

  it('a node that refuses a good permit costs nothing', async () => {
    proxy.chooseFault(({ method, params }) =>
      method === 'eth_call' && JSON.stringify(params).includes('0xd505accf')
        ? { kind: 'error', code: 3, message: 'execution reverted: blocked' }
        : null,
    )
    await expectRefused(await ask(await permit(payer)), { status: 400, code: 'permit_rejected', param: null })
  })

  it('an owner’s state cannot be described without the chain', async () => {
    proxy.setFault({ kind: 'status', status: 502 })
    await expectErrorBody(await fetch(`${url}?owner=${payer.address}`), UNREACHABLE)
  })
})

describe('the description of an owner', () => {
  it('a wallet without an allowance gets the message to sign, which is then accepted as it is', async () => {
    const described = await status(payer.account.address)
    expect(described).toMatchObject({
      object: 'allowance_status',
      owner: payer.address,
      spender: terms.permit2,
      allowance: '0',
      balance_usdc_atomic: '1000000',
      permit_nonce: '0',
      pays_without_permit: false,
      maximum_without_permit: '0',
      sponsoring: { available: true, reason: null, minimum_value: '100000' },
    })
    const data = described['typed_data'] as { message: object }
    const signature = await payer.account.signTypedData(data as never)
    const answer = await ask({ ...data.message, signature })
    await expectErrorBody(answer, { status: 503, code: 'allowance_pending', param: null })
    expect((await status(payer.address))['sponsoring']).toMatchObject({
      available: false,
      reason: 'owner_allowance_limit',
      retry_after_seconds: expect.any(Number),
    })
  })

  it('an approved wallet pays without a permit up to the lower of allowance and balance', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    await owner.approve(400_000n)
    expect(await status(owner.address)).toMatchObject({
      allowance: '400000',
      pays_without_permit: true,
      maximum_without_permit: '400000',
    })
    await owner.approve()
    expect(await status(owner.address)).toMatchObject({
      maximum_without_permit: '1000000',
      sponsoring: { available: true },
    })
  })

  it('a wallet with too little USDC, or with code, reads why no permit of it is submitted', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 1n })
    expect((await status(poor.address))['sponsoring']).toMatchObject({ reason: 'owner_balance_too_low' })
    const delegating = await createPayer(devnet.rpcUrl)
    await callRpc(devnet.rpcUrl, 'anvil_setCode', [delegating.address, '0x00'])
    expect((await status(delegating.address))['sponsoring']).toMatchObject({ reason: 'owner_has_code' })
  })

  it('an owner that is missing, repeated or no address is refused', async () => {
    await refusedQuery('', 'missing_field')
    await refusedQuery('?owner=0x12', 'invalid_field')
    await refusedQuery(`?owner=${payer.address}&owner=${payer.address}`, 'invalid_field')
  })
})
