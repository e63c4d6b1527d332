import { maxUint256, pad, slice, toFunctionSelector, toHex } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Authorization } from '#shared/payment/authorization.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import {
  type BatchChain,
  CHARGE,
  encodeOwnCall,
  type Item,
  itemOf,
  type MinedItem,
  newAddress,
  startBatchChain,
} from './batch-chain.ts'

const REASON = {
  nonceUsed: toFunctionSelector('InvalidNonce()'),
  expired: toFunctionSelector('SignatureExpired(uint256)'),
  foreign: toFunctionSelector('UnauthorizedFacilitator()'),
  tooMuch: toFunctionSelector('AmountExceedsPermitted()'),
  early: toFunctionSelector('PaymentTooEarly()'),
  signer: toFunctionSelector('InvalidSigner()'),
  text: toFunctionSelector('Error(string)'),
} as const

let chain: BatchChain
let payer: Payer
beforeAll(async () => {
  chain = await startBatchChain()
  payer = await createPayer(chain.rpcUrl, { approved: true, usdcAtomic: 100_000_000n })
})
afterAll(() => chain.stop())

const received = () => chain.usdcBalance(chain.accounts.recipient.address)
const isUsed = ({ payer: owner, nonce }: Authorization) => chain.isPermit2NonceUsed(owner, nonce)
const outcomes = (results: readonly MinedItem[]) => results.map(({ reason }) => reason ?? 'settled')

describe('settleMany', () => {
  it.each([1, 2, 3, 33, 100, 200])('settles %i payments, with an event for each in their order', async (count) => {
    const payers = [payer, await createPayer(chain.rpcUrl, { approved: true })]
    const signed = await Promise.all(
      Array.from({ length: count }, (_, index) => chain.signFor(payers[index % 2] ?? payer)),
    )
    const before = await received()
    const { receipt, results } = await chain.settleMany(
      signed.map((authorization) => itemOf(authorization, { gas: 100_000n })),
    )
    expect(receipt.status).toBe('success')
    expect(results.map(({ settled, payer: by, nonce }) => ({ settled, by, nonce }))).toEqual(
      signed.map(({ payer: by, nonce }) => ({ settled: true, by, nonce })),
    )
    expect((await received()) - before).toBe(BigInt(count) * CHARGE)
    for (const { gasUsed } of results) expect(gasUsed).toBeGreaterThan(40_000n)
    expect(results.reduce((sum, { gasUsed }) => sum + gasUsed, 0n)).toBeLessThan(receipt.gasUsed)
  })

  it('settles the one payment that can be settled among 199 that fail', async () => {
    const burned = await chain.signFor(payer)
    await payer.invalidateNonce(burned.nonce)
    const good = await chain.signFor(payer)
    const items = Array.from({ length: 200 }, (_, index) => itemOf(index === 137 ? good : burned, { gas: 100_000n }))
    const before = await received()
    const { results } = await chain.settleMany(items)
    expect(outcomes(results)).toEqual(items.map((_, index) => (index === 137 ? 'settled' : REASON.nonceUsed)))
    expect((await received()) - before).toBe(CHARGE)
  })

  it('reports for each failing payment the reason of the proxy, Permit2 or the token, and settles the others', async () => {
    const poor = await createPayer(chain.rpcUrl, { approved: true, usdcAtomic: 1n })
    const unapproved = await createPayer(chain.rpcUrl)
    const revoked = await createPayer(chain.rpcUrl, { approved: true })
    const turned = await createPayer(chain.rpcUrl, { approved: true })
    const [byRevoked, byTurned] = [await chain.signFor(revoked), await chain.signFor(turned)]
    await revoked.approve(0n)
    await callRpc(chain.rpcUrl, 'anvil_setCode', [turned.address, '0x00'])
    const used = await chain.signFor(payer)
    await payer.invalidateNonce(used.nonce)
    const wrong = await chain.signFor(payer, { signer: poor.account })
    const failing: readonly (readonly [Item, string])[] = [
      [itemOf(used), REASON.nonceUsed],
      [itemOf(await chain.signFor(payer, { deadline: secondsFromNow(-1000) })), REASON.expired],
      [itemOf(await chain.signFor(payer, { facilitator: chain.key })), REASON.foreign],
      [itemOf(await chain.signFor(payer, { facilitator: newAddress() })), REASON.foreign],
      [itemOf(await chain.signFor(payer, { authorizedMaximum: CHARGE - 1n })), REASON.tooMuch],
      [itemOf(await chain.signFor(payer, { validAfter: secondsFromNow(100_000) })), REASON.early],
      [itemOf(wrong), REASON.signer],
      [itemOf(await chain.signFor(poor)), REASON.text],
      [itemOf(await chain.signFor(unapproved)), REASON.text],
      [itemOf(byRevoked), REASON.text],
      [itemOf(byTurned), '0x00000000'],
    ]
    const items: Item[] = []
    const expected: string[] = []
    for (const [item, reason] of failing) {
      items.push(item, itemOf(await chain.signFor(payer)))
      expected.push(reason, 'settled')
    }
    const before = await received()
    const { results } = await chain.settleMany(items)
    expect(outcomes(results)).toEqual(expected)
    expect((await received()) - before).toBe(BigInt(failing.length) * CHARGE)
  })

  it('settles a repeated payment once, and reports the repetition as failed', async () => {
    const authorization = await chain.signFor(payer)
    const item = itemOf(authorization)
    const before = await received()
    const { results } = await chain.settleMany([item, item, itemOf(authorization, { charge: CHARGE })])
    expect(outcomes(results)).toEqual(['settled', REASON.nonceUsed, REASON.nonceUsed])
    expect((await received()) - before).toBe(CHARGE)
    expect(outcomes((await chain.settleMany([item])).results)).toEqual([REASON.nonceUsed])
  })

  it('submits permits, and settles with and without them in one batch', async () => {
    const sponsored = await Promise.all([createPayer(chain.rpcUrl), createPayer(chain.rpcUrl)])
    const withPermits = await Promise.all(sponsored.map((by) => chain.signFor(by, { gasSponsored: true })))
    const items = withPermits.map((authorization) => itemOf(authorization, { submitsPermit: true, gas: 250_000n }))
    const { results } = await chain.settleMany([...items, itemOf(await chain.signFor(payer))])
    expect(results.map(({ settled }) => settled)).toEqual([true, true, true])
    expect(results.slice(0, 2).map(({ payer: by, nonce }) => ({ by, nonce }))).toEqual(
      withPermits.map(({ payer: by, nonce }) => ({ by, nonce })),
    )
  })

  it('does nothing for an empty batch', async () => {
    expect((await chain.settleMany([])).receipt).toMatchObject({ status: 'success', logs: [] })
  })

  it('reverts as a whole for a call that is not a settlement, at its position', async () => {
    const good = await chain.signFor(payer)
    const { call } = itemOf(good)
    const withPermit = toFunctionSelector(
      'settleWithPermit((uint256,uint256,bytes32,bytes32,uint8),((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)',
    )
    const others = [
      '0x',
      '0x12',
      slice(call, 0, 4),
      slice(call, 0, 4 + 10 * 32 - 1),
      `${withPermit}${slice(call, 4, 4 + 10 * 32).slice(2)}`,
      toFunctionSelector('transfer(address,uint256)'),
      `${toFunctionSelector('PERMIT2()')}${call.slice(10)}`,
    ] as const
    for (const other of others) {
      const items = [itemOf(good), { gas: 100_000n, call: other }]
      for (const functionName of ['settleMany', 'simulateMany'] as const)
        expect(await chain.errorOf({ functionName, args: [items] })).toBe('NotASettlement(1)')
    }
    const { receipt } = await chain.settleMany([itemOf(good), { gas: 100_000n, call: '0x' }])
    expect(receipt).toMatchObject({ status: 'reverted', logs: [] })
    expect(await isUsed(good)).toBe(false)
  })

  it('fails a payment whose bytes are damaged anywhere, and settles its neighbors', async () => {
    const [first, damaged, last] = [await chain.signFor(payer), await chain.signFor(payer), await chain.signFor(payer)]
    const { call } = itemOf(damaged)
    for (let word = 0; word < 13; word++) {
      const at = 4 + word * 32
      const flipped = toHex(BigInt(slice(call, at, at + 32)) ^ (maxUint256 >> 1n) ^ 1n)
      const bytes =
        `${slice(call, 0, at)}${pad(flipped, { size: 32 }).slice(2)}${call.slice(2 + 2 * (at + 32))}` as const
      const items = [itemOf(first), { gas: 100_000n, call: bytes }, itemOf(last)]
      const simulated = await chain.simulateMany(items)
      expect(simulated.map(({ succeeds }) => succeeds)).toEqual([true, false, true])
    }
  })

  it('takes no native token', async () => {
    const data = encodeOwnCall({ functionName: 'settleMany', args: [[]] })
    for (const call of [{ data }, { data: '0x' as const }])
      await expect(chain.client.call({ account: chain.key, to: chain.contract, value: 1n, ...call })).rejects.toThrow(
        'revert',
      )
    expect(await chain.client.getBalance({ address: chain.contract })).toBe(0n)
    expect(await chain.usdcBalance(chain.contract)).toBe(0n)
  })
})
