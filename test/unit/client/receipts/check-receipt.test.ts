import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkCharge } from '../../../../client/receipts/check-charge.ts'
import { checkPayment, checkResultDigest } from '../../../../client/receipts/check-payment.ts'
import { checkSignature } from '../../../../client/receipts/check-signature.ts'
import { checkTransfer } from '../../../../client/receipts/check-transfer.ts'
import { readReceipt } from '../../../../client/receipts/read-receipt.ts'
import type { Receipt } from '../../../../client/wire/schemas.ts'
import { createKeys, KID, receiptOf, signReceipt } from './receipts.ts'

const failuresOf = (receipt: Receipt) =>
  checkCharge(receipt)
    .filter(({ outcome }) => outcome === 'failed')
    .map(({ name }) => name)

const calculation = receiptOf().calculation as NonNullable<Receipt['calculation']>
const [line] = calculation.lines

describe('the arithmetic of a receipt', () => {
  it('a charge that follows from usage and prices passes', () => {
    expect(failuresOf(receiptOf())).toEqual([])
  })

  it.each<[string, Partial<Receipt>, readonly string[]]>([
    ['a charge above the authorized maximum', { authorized_maximum_atomic: '5033' }, ['maximum', 'charge']],
    ['a charge above the quoted maximum', { quoted_maximum_atomic: '5033' }, ['maximum', 'charge']],
    [
      'a charge one unit higher',
      { charge_atomic: '5035', quoted_maximum_atomic: '9999', authorized_maximum_atomic: '9999' },
      ['calculation', 'charge'],
    ],
    ['less usage than was charged', { usage: { input_audio_ms: 99_999 } }, ['calculation']],
    ['an amount that is not the atomic one', { charge_usdc: '0.005033' }, ['charge']],
    ['a price without a known unit', { unit_prices: { price_per_moon_usd: '1' } }, ['charge']],
    ['no price at all', { unit_prices: { minimum_charge_usd: '0.005034' } }, ['charge']],
    ['usage that is not measured', { usage: {} }, ['charge']],
    ['a sum that is not the sum', { calculation: { ...calculation, sum_usd: '1' } }, ['calculation']],
    ['a step that was rounded down', { calculation: { ...calculation, rounded_atomic: '3388' } }, ['calculation']],
    [
      'other units in a line',
      { calculation: { ...calculation, lines: [{ ...line, per_units: '1' } as never] } },
      ['calculation'],
    ],
    ['no line for a price', { calculation: { ...calculation, lines: [] } }, ['calculation']],
  ])('%s fails', (_name, changes, failures) => {
    expect(failuresOf(receiptOf(changes))).toEqual(failures)
  })

  it('a receipt without a calculation is recomputed all the same', () => {
    const { calculation: _, ...others } = receiptOf()
    const checks = checkCharge(others)
    expect(checks.map(({ name, outcome }) => `${name} ${outcome}`)).toEqual([
      'maximum passed',
      'calculation skipped',
      'charge passed',
    ])
  })

  it('exactly one charge passes for any tokens and prices', () => {
    const price = fc
      .nat(9_999_999)
      .map((units) => ({ units, text: `${Math.floor(units / 1e6)}.${String(units % 1e6).padStart(6, '0')}` }))
    fc.assert(
      fc.property(
        fc.nat(2_000_000),
        fc.nat(200_000),
        price,
        price,
        fc.integer({ min: -2, max: 2 }),
        (input, output, inputPrice, outputPrice, off) => {
          // Prices are per million tokens, and a dollar has a million atomic units: the two cancel out.
          const millionths = BigInt(input) * BigInt(inputPrice.units) + BigInt(output) * BigInt(outputPrice.units)
          const right = (millionths + 999_999n) / 1_000_000n
          const stated = right + BigInt(off) < 0n ? 0n : right + BigInt(off)
          const atomic = stated.toString()
          const receipt = receiptOf({
            usage: { input_tokens: input, output_tokens: output },
            unit_prices: {
              input_per_million_tokens_usd: inputPrice.text,
              output_per_million_tokens_usd: outputPrice.text,
            },
            charge_atomic: atomic,
            charge_usdc: `${stated / 1_000_000n}.${(stated % 1_000_000n).toString().padStart(6, '0')}`,
            quoted_maximum_atomic: '99999999999999',
            authorized_maximum_atomic: '99999999999999',
            calculation: undefined,
          })
          expect(failuresOf(receipt)).toEqual(stated === right ? [] : ['charge'])
        },
      ),
      { numRuns: 1000 },
    )
  })
})

describe('the signature of a receipt', () => {
  const { privateKey, key } = createKeys()
  const keys = {
    url: 'https://farebox.example/.well-known/jwks.json',
    find: async (kid: string) => (kid === KID ? key : undefined),
  }

  it('passes for what was signed, and fails when any member was changed or added', async () => {
    const signed = signReceipt(receiptOf(), privateKey)
    expect(await checkSignature(signed, keys)).toMatchObject({ outcome: 'passed' })
    for (const name of Object.keys(signed).filter((each) => each !== 'signature'))
      expect(await checkSignature({ ...signed, [name]: 'changed' }, keys)).toMatchObject({ outcome: 'failed' })
    expect(await checkSignature({ ...signed, added: 1 } as Receipt, keys)).toMatchObject({ outcome: 'failed' })
  })

  it('fails for the key of another service, for one that is not listed, and for another kind of statement', async () => {
    const foreign = signReceipt(receiptOf(), createKeys().privateKey)
    expect(await checkSignature(foreign, keys)).toMatchObject({ outcome: 'failed' })
    const unlisted = signReceipt(receiptOf(), privateKey, {
      alg: 'EdDSA',
      kid: 'did:web:b.example#k1',
      typ: 'farebox-receipt',
    })
    expect((await checkSignature(unlisted, keys)).detail).toContain('does not list')
    for (const header of [
      { alg: 'EdDSA', kid: KID },
      { alg: 'none', kid: KID, typ: 'farebox-receipt' },
      { alg: 'EdDSA', typ: 'farebox-receipt' },
    ])
      expect(await checkSignature(signReceipt(receiptOf(), privateKey, header), keys)).toMatchObject({
        outcome: 'failed',
      })
    for (const signature of ['', '..', 'a.b.c', 'x..y', 'x'])
      expect(await checkSignature(receiptOf({ signature }), keys)).toMatchObject({ outcome: 'failed' })
  })
})

describe('the payment of a receipt', () => {
  const known = {
    payer: `0x${'a'.repeat(40)}`,
    terms: { network: 'eip155:8453', asset: `0x${'c'.repeat(40)}`, payTo: `0x${'b'.repeat(40)}` },
    answered: { charge: 5034n, transaction: `0x${'d'.repeat(64)}`, maximum: 5034n },
  }

  it('passes when it is what was signed and answered', () => {
    expect(checkPayment(receiptOf(), known)).toMatchObject({ outcome: 'passed' })
  })

  it.each<[string, Partial<Receipt>]>([
    ['payer', { payer: `0x${'9'.repeat(40)}` }],
    ['network', { network: 'eip155:1' }],
    ['asset', { asset: `0x${'9'.repeat(40)}` }],
    ['recipient', { pay_to: `0x${'9'.repeat(40)}` }],
    ['charge', { charge_atomic: '5033' }],
    ['authorized maximum', { authorized_maximum_atomic: '9999' }],
    ['transaction', { transaction: '0x1', settlement: { state: 'final', transaction: '0x2', block_number: '1' } }],
  ])('another %s fails and is named', (name, changes) => {
    const check = checkPayment(receiptOf(changes), known)
    expect(check.outcome).toBe('failed')
    expect(check.detail).toContain(`its ${name} is`)
  })

  it('a transaction that took its place after a reorganization passes', () => {
    const settlement = { state: 'final', transaction: known.answered.transaction, block_number: '2' } as const
    expect(checkPayment(receiptOf({ transaction: '0x1', settlement }), known)).toMatchObject({ outcome: 'passed' })
  })

  it('the answer must have its digest', () => {
    expect(checkResultDigest(receiptOf(), new Uint8Array())).toMatchObject({ outcome: 'passed' })
    expect(checkResultDigest(receiptOf(), new Uint8Array([1]))).toMatchObject({ outcome: 'failed' })
  })

  it('a charge that a reorganization removed fails, and one of zero needs no transfer', async () => {
    const lost = { state: 'lost', transaction: '0x1', block_number: '1' } as const
    expect(await checkTransfer(receiptOf({ settlement: lost }), null)).toMatchObject({ outcome: 'failed' })
    expect(await checkTransfer(receiptOf({ charge_atomic: '0', transaction: '' }), null)).toMatchObject({
      outcome: 'passed',
    })
  })
})

describe('the form of a receipt', () => {
  it('what is no receipt is refused, whatever member is missing or wrong', () => {
    for (const value of [null, 1, 'x', [], {}, { object: 'list' }])
      expect(() => readReceipt(value, 'It')).toThrow(expect.objectContaining({ code: 'not_a_receipt' }))
    for (const name of Object.keys(receiptOf()).filter(
      (each) =>
        ![
          'calculation',
          'currency',
          'catalog_version',
          'price_version',
          'request_digest',
          'accepted_at',
          'settled_at',
        ].includes(each),
    )) {
      expect(() => readReceipt({ ...receiptOf(), [name]: 7 }, 'It')).toThrow(
        expect.objectContaining({ code: 'not_a_receipt' }),
      )
    }
  })
})
