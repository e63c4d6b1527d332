import type { FastifyInstance } from 'fastify'
import { maxUint256, numberToHex, parseSignature } from 'viem'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createAllowanceReader } from '#shared/chain/allowance/allowance-reader.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createPermitStore } from '#shared/ledger/allowances/permit-store.ts'
import { createVerificationLimiter } from '../../../api/limits/rate-limits.ts'
import { addAllowanceRoutes } from '../../../api/routes/allowances.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type ExpectedRefusal, expectErrorBody } from '../../support/http/expect-refusal.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { permitCall } from '../../support/payer/allowance-permit.ts'
import { createPayer, ELSEWHERE, type Payer, sendAs } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { PERMIT_TYPES } from '../../support/payer/sign-permit.ts'
import { composeApp, limitRate, newRateBuckets, terms as termsWithoutContract } from './compose-app.ts'

const terms = { ...termsWithoutContract, settlementContract: ELSEWHERE } as const

let ledger: TestLedger
let devnet: TestDevnet
let proxy: RpcProxy
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
  url = await serve()
  payer = await createPayer(devnet.rpcUrl)
})
afterEach(async () => {
  proxy.setFault(null)
  proxy.chooseFault(() => null)
  await ledger.sql('DELETE FROM stored_permits')
})
afterAll(async () => {
  await Promise.all(apps.map((app) => app.close()))
  await proxy.stop()
  await Promise.all([ledger.close(), devnet.stop()])
})

/** Serves the routes, and returns their URL. */
async function serve({ verificationsPerMinute = 1_000_000, isStoring = true } = {}): Promise<string> {
  const app = await composeApp((routes) =>
    addAllowanceRoutes(routes, {
      allowances: {
        terms: isStoring ? terms : { ...terms, settlementContract: null },
        payerScreen: {
          isRefused: (owner) => blocked.has(owner),
          isListedOnChain: (owner) => {
            asked.push(owner)
            return Promise.resolve(listed.has(owner))
          },
        },
        reader: createAllowanceReader(createChainClient(proxy.url, PATIENCE_MS)),
        permitStore: createPermitStore(ledger.pool),
        now: () => new Date(),
      },
      limitRate,
      limitVerifications: createVerificationLimiter(newRateBuckets(), verificationsPerMinute),
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

const send = (body: unknown, to = url) =>
  fetch(to, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
const ask = async (body: unknown, to = url) => await send({ permit: body }, to)
const stored = () =>
  ledger.sql('SELECT owner, value, permit_nonce AS nonce, signature FROM stored_permits ORDER BY owner')
const status = async (owner: string, from = url) =>
  (await (await fetch(`${from}?owner=${owner}`)).json()) as Readonly<Record<string, unknown>>

const refusedQuery = (query: string, code: string) =>
  fetch(`${url}${query}`).then((answer) => expectErrorBody(answer, { status: 400, code, param: 'owner' }))

/** Asserts a refusal after which nothing is stored. */
async function expectRefused(answer: Response, expected: ExpectedRefusal): Promise<void> {
  await expectErrorBody(answer, expected)
  expect(await stored()).toEqual([])
}

/** Submits a permit as anyone may who has seen it. */
async function submitElsewhere(owner: Payer, changes: Signed = {}): Promise<void> {
  const { value, deadline, signature } = await permit(owner, changes)
  const call = permitCall({ owner: owner.address, value: BigInt(value), deadline: BigInt(deadline), signature })
  await sendAs({ address: ELSEWHERE, rpcUrl: devnet.rpcUrl }, call)
}

/** Asserts that a permit is stored, and returns the answer. */
async function expectStored(answer: Response, owner: Payer, value = maxUint256) {
  const body = (await answer.json()) as { readonly stored_permit: object }
  expect([answer.status, body]).toMatchObject([200, { owner: owner.address, stored_permit: { value: `${value}` } }])
  expect(await stored()).toMatchObject([{ owner: owner.address, value: `${value}` }])
  return body
}

describe('a permit that is accepted', () => {
  it('stores a good permit without a transaction, and repeats the answer', async () => {
    const body = await permit(payer)
    const before = proxy.calls.length
    const answer = await expectStored(await ask(body), payer)
    expect(answer).toEqual({
      object: 'allowance',
      network: 'eip155:8453',
      asset: terms.asset,
      owner: payer.address,
      spender: terms.permit2,
      allowance: '0',
      block: expect.any(Number),
      stored_permit: { value: maxUint256.toString(), nonce: '0', deadline: body.deadline },
    })
    expect(proxy.calls.slice(before).sort()).toEqual(['eth_call', 'eth_getCode'])
    expect(await Promise.all([ask(body), ask(body)].map(async (again) => await (await again).json()))).toEqual([
      answer,
      answer,
    ])
    expect(await stored()).toEqual([
      { owner: payer.address, value: maxUint256.toString(), nonce: '0', signature: body.signature },
    ])
  })

  it('puts a newer permit in the place of an earlier one, unless that has a later nonce', async () => {
    await ask(await permit(payer))
    await expectStored(await ask(await permit(payer, { value: 700_000n })), payer, 700_000n)
    await ledger.sql('UPDATE stored_permits SET permit_nonce = 5')
    await expectErrorBody(await ask(await permit(payer)), {
      status: 400,
      code: 'permit_invalid',
      param: 'permit.nonce',
    })
    expect(await stored()).toMatchObject([{ value: '700000', nonce: '5' }])
  })

  it.each([
    ['its deadline', secondsFromNow(3600), '59 minutes', '61 minutes'],
    ['30 days, whatever its deadline', maxUint256, '29 days', '31 days'],
  ])('keeps a permit until %s', async (_, deadline, least, most) => {
    await ask(await permit(payer, { deadline }))
    const within = `SELECT 1 FROM stored_permits WHERE expires_at BETWEEN now() + $1::interval AND now() + $2::interval`
    expect(await ledger.sql(within, [least, most])).toHaveLength(1)
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
      await expectStored(await ask(forms[form]), payer, 5_000_000n)
      expect(await stored()).toMatchObject([{ signature }])
    },
  )

  it('an allowance that suffices is a success, and nothing is stored', async () => {
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
        block: expect.any(Number),
        stored_permit: null,
      },
    ])
    expect(await stored()).toEqual([])
  })

  it('a permit that somebody else submitted is a success while its allowance suffices', async () => {
    const owner = await createPayer(devnet.rpcUrl)
    const deadline = secondsFromNow(3600)
    await submitElsewhere(owner, { deadline })
    const answer = await ask(await permit(owner, { deadline }))
    expect([answer.status, await answer.json()]).toMatchObject([
      200,
      { allowance: maxUint256.toString(), stored_permit: null },
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
    expect((await ask(signed)).status).toBe(200)
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

describe('the limits of stored permits', () => {
  it('stores no more permits of 300 strangers than their network may have verified, and sends no transaction', async () => {
    const limited = await serve({ verificationsPerMinute: 40 })
    const owners = await Promise.all(
      Array.from({ length: 300 }, () => createPayer(devnet.rpcUrl, { usdcAtomic: 100_000n })),
    )
    const permits = await Promise.all(owners.map((owner) => permit(owner)))
    const [block, calls] = [await devnet.client.getBlockNumber(), proxy.calls.length]
    const statuses = await Promise.all(permits.map(async (signed) => (await ask(signed, limited)).status))
    const rows = await stored()
    // The allowance of a minute, and what of it returns within seconds.
    expect(rows.length).toBeGreaterThanOrEqual(40)
    expect(rows.length).toBeLessThan(60)
    expect(statuses.filter((each) => each === 200)).toHaveLength(rows.length)
    expect(statuses.filter((each) => each === 429)).toHaveLength(300 - rows.length)
    // Two reads each, and no block: nothing was sent.
    expect(proxy.calls.length - calls).toBe(2 * rows.length)
    expect(await devnet.client.getBlockNumber()).toBe(block)
  }, 60_000)

  it('limits permits that are forged before the chain and its list are asked', async () => {
    const limited = await serve({ verificationsPerMinute: 2 })
    const forged = { ...(await permit(payer)), value: '1000000' }
    for (let index = 0; index < 2; index += 1) await ask(forged, limited)
    const before = [proxy.calls.length, asked.length]
    await expectRefused(await ask(forged, limited), { status: 429, code: 'rate_limited', param: null })
    expect([proxy.calls.length, asked.length]).toEqual(before)
  })

  it('refuses every permit where no contract could bring it, before any work', async () => {
    const without = await serve({ isStoring: false })
    const before = proxy.calls.length
    const answer = await ask(await permit(payer), without)
    expect(answer.headers.get('x-should-retry')).toBe('false')
    await expectRefused(answer, {
      status: 409,
      code: 'permits_not_stored',
      param: null,
      says: ['one call after another', 'exactly its maximum'],
    })
    expect(proxy.calls.length).toBe(before)
    expect((await status(payer.address, without))['storing']).toMatchObject({
      available: false,
      reason: 'permits_not_stored',
    })
  })
})

describe('a chain that fails', () => {
  const UNREACHABLE = { status: 503, code: 'payment_network_unavailable', param: null, says: ['Nothing was stored'] }

  it('nothing is stored while the owner cannot be read', async () => {
    const body = await permit(payer)
    for (const failing of ['0xca11bde05977b3631167028862be2a173976ca11', 'eth_getCode']) {
      proxy.chooseFault((call) => (JSON.stringify(call).includes(failing) ? { kind: 'status', status: 502 } : null))
      await expectRefused(await ask(body), UNREACHABLE)
    }
    proxy.chooseFault(() => null)
    await expectStored(await ask(body), payer)
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
      stored_permit: null,
      storing: { available: true, reason: null, minimum_value: '100000' },
    })
    const data = described['typed_data'] as { message: object }
    const signature = await payer.account.signTypedData(data as never)
    await expectStored(await ask({ ...data.message, signature }), payer)
    expect(await status(payer.address)).toMatchObject({
      allowance: '0',
      pays_without_permit: true,
      maximum_without_permit: '1000000',
      stored_permit: { value: maxUint256.toString(), nonce: '0' },
    })
  })

  it.each([
    ['whose nonce is used', 'permit_nonce = 1'],
    ['whose deadline has passed by the clock of the chain', 'deadline = 1'],
    ['that has expired', "expires_at = now() - interval '1 second'"],
  ])('a stored permit %s is not described', async (_, change) => {
    await ask(await permit(payer))
    await ledger.sql(`UPDATE stored_permits SET ${change}`)
    expect(await status(payer.address)).toMatchObject({ stored_permit: null, pays_without_permit: false })
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
      storing: { available: true },
    })
  })

  it('a wallet with too little USDC, or with code, reads why no permit of it is stored', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 1n })
    expect((await status(poor.address))['storing']).toMatchObject({ reason: 'owner_balance_too_low' })
    const delegating = await createPayer(devnet.rpcUrl)
    await callRpc(devnet.rpcUrl, 'anvil_setCode', [delegating.address, '0x00'])
    expect((await status(delegating.address))['storing']).toMatchObject({ reason: 'owner_has_code' })
  })

  it('an owner that is missing, repeated or no address is refused', async () => {
    await refusedQuery('', 'missing_field')
    await refusedQuery('?owner=0x12', 'invalid_field')
    await refusedQuery(`?owner=${payer.address}&owner=${payer.address}`, 'invalid_field')
  })
})
