import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  type CallDocuments,
  callLine,
  receiptIdOf,
  receiptOf,
  transactionHashOf,
  transactionLine,
} from '#shared/archive/archived-line.ts'
import { DamagedObject, packObject, unpackObject } from '#shared/archive/archived-object.ts'

const RECEIPT_ID = '0b8f4c1e-7c1d-4e0e-9c57-0d3b7f6b2a11'
const CALL: CallDocuments = {
  jobId: '5d5e6c2a-1f0e-4b1c-8a77-7a2c4b9d1e02',
  receiptId: RECEIPT_ID,
  payer: '0xabc',
  finishedAt: new Date('2026-05-03T12:00:00Z'),
  // As PostgreSQL writes it, with a number that JavaScript would round.
  receipt: '{"id": "text with \\"quotes\\" and \\n", "exact": 12345678901234567890}',
  authorizations: '[{"id": "a", "signed": {"signature": "0x1"}}]',
  terms: '{"a": 1}',
  keyTerms: '{"b": 2}',
  paymentResponse: '{"success": true}',
}
const TRANSACTION = {
  hash: '0x12',
  network: 'eip155:8453',
  sender: '0xabc',
  accountNonce: '7',
  settlementId: null,
  batchId: RECEIPT_ID,
  raw: '0x02',
}

describe('the lines of an archived object', () => {
  it('keep each document as it was stored', () => {
    for (const text of [CALL.receipt, CALL.authorizations, CALL.terms, CALL.keyTerms, CALL.paymentResponse])
      expect(callLine(CALL)).toContain(`:${text}`)
    expect(JSON.parse(callLine(CALL))).toMatchObject({
      receipt_id: RECEIPT_ID,
      finished_at: '2026-05-03T12:00:00.000Z',
    })
    expect(receiptOf(callLine(CALL))).toMatchObject({ id: 'text with "quotes" and \n' })
  })

  it('are found by the receipt of a call, or the hash of a transaction', () => {
    const lines = [callLine(CALL), transactionLine(TRANSACTION)]
    expect(lines.map(receiptIdOf)).toEqual([RECEIPT_ID, null])
    expect(lines.map(transactionHashOf)).toEqual([null, '0x12'])
    expect(lines.filter((line) => line.includes('\n'))).toEqual([])
  })
})

describe('an archived object', () => {
  const lines = [callLine(CALL), transactionLine(TRANSACTION)]

  it('has the same bytes and the same key whenever it is packed, and another key for other documents', async () => {
    const [first, second] = [await packObject('2026-05', lines), await packObject('2026-05', lines)]
    expect(second).toEqual(first)
    expect(first.key).toBe(`archive/calls/2026-05-${first.sha256}`)
    expect((await packObject('2026-05', lines.slice(1))).key).not.toBe(first.key)
    expect((await packObject('2026-06', lines)).key).not.toBe(first.key)
  })

  it('can be read with gunzip, and names its format', async () => {
    const { bytes, uncompressedBytes } = await packObject('2026-05', lines)
    const text = gunzipSync(bytes)
    expect(text).toHaveLength(uncompressedBytes)
    expect(text.toString()).toBe(`{"format":"farebox-archive-1","month":"2026-05"}\n${lines.join('\n')}\n`)
  })

  it('returns its lines, and refuses any other bytes', async () => {
    const packed = await packObject('2026-05', lines)
    expect(await unpackObject(packed, packed.bytes)).toEqual(lines)
    const { bytes: others } = await packObject('2026-05', lines.slice(1))
    await expect(unpackObject(packed, others)).rejects.toThrow(DamagedObject)
    await expect(unpackObject(packed, packed.bytes.subarray(0, -1))).rejects.toThrow('has other bytes')
    await expect(unpackObject(packed, null)).rejects.toThrow('is missing in the object store')
  })
})
