import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { opensReceipt, receiptToken } from '#shared/payment/receipt.ts'

const older = { id: 'older', secret: 'o'.repeat(32) }
const newer = { id: 'newer', secret: 'n'.repeat(32) }
const id = randomUUID()

describe('a receipt token', () => {
  it('opens its receipt', () => {
    expect(opensReceipt(receiptToken(id, newer), id, [newer])).toBe(true)
  })

  it('stays valid after a rotation while its secret is listed, and no longer', () => {
    const token = receiptToken(id, older)
    expect(opensReceipt(token, id, [newer, older])).toBe(true)
    expect(opensReceipt(token, id, [newer])).toBe(false)
    expect(opensReceipt(token, id, [])).toBe(false)
  })

  it('is the same at every derivation, so that a replay gives the same one', () => {
    expect(receiptToken(id, newer)).toBe(receiptToken(id, { ...newer }))
  })

  it('has one form: the secret’s name, a point, 43 characters of Base64url', () => {
    for (let time = 0; time < 50; time += 1) expect(receiptToken(randomUUID(), newer)).toMatch(/^newer\.[\w-]{43}$/)
  })

  it('opens no other receipt', () => {
    expect(opensReceipt(receiptToken(id, newer), randomUUID(), [newer])).toBe(false)
  })

  it('with any one character changed, cut or added opens nothing', () => {
    const token = receiptToken(id, newer)
    for (let index = 0; index < token.length; index += 1) {
      const changed = token[index] === 'A' ? 'B' : 'A'
      for (const variant of [token.slice(0, index) + changed + token.slice(index + 1), token.slice(0, index)])
        expect([variant, opensReceipt(variant, id, [newer, older])]).toEqual([variant, false])
    }
    for (const variant of ['', ' ', `${token} `, `${token}=`, 'é'.repeat(token.length)])
      expect(opensReceipt(variant, id, [newer])).toBe(false)
  })

  it('under a secret of the same value but another name opens nothing', () => {
    expect(opensReceipt(receiptToken(id, newer), id, [{ ...newer, id: 'third' }])).toBe(false)
  })

  it('is not the bare HMAC of the id, which another use of the secret might publish', () => {
    expect(receiptToken(id, newer)).not.toBe(receiptToken(`farebox receipt\0${id}`, newer))
  })
})
