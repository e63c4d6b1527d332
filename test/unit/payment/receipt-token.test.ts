import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { opensReceipt, receiptToken } from '#shared/payment/receipt.ts'

const older = { id: 'older', secret: 'o'.repeat(32) }
const newer = { id: 'newer', secret: 'n'.repeat(32) }
const id = randomUUID()

describe('a receipt token', () => {
  it('a receipt token opens its receipt', () => {
    expect(opensReceipt(receiptToken(id, newer), id, [newer])).toBe(true)
  })

  it('a receipt token stays valid after a rotation only while its secret is listed', () => {
    const token = receiptToken(id, older)
    expect(opensReceipt(token, id, [newer, older])).toBe(true)
    expect(opensReceipt(token, id, [newer])).toBe(false)
    expect(opensReceipt(token, id, [])).toBe(false)
  })

  it('a receipt token is the same at every derivation, so replays return the same token', () => {
    expect(receiptToken(id, newer)).toBe(receiptToken(id, { ...newer }))
  })

  it('a receipt token consists of the secret’s name, a period and 43 Base64url characters', () => {
    for (let time = 0; time < 50; time += 1) expect(receiptToken(randomUUID(), newer)).toMatch(/^newer\.[\w-]{43}$/)
  })

  it('a receipt token does not open another receipt [spec R24]', () => {
    expect(opensReceipt(receiptToken(id, newer), randomUUID(), [newer])).toBe(false)
  })

  it('a receipt token opens nothing after a change or removal of any character', () => {
    const token = receiptToken(id, newer)
    for (let index = 0; index < token.length; index += 1) {
      const changed = token[index] === 'A' ? 'B' : 'A'
      for (const variant of [token.slice(0, index) + changed + token.slice(index + 1), token.slice(0, index)])
        expect([variant, opensReceipt(variant, id, [newer, older])]).toEqual([variant, false])
    }
    for (const variant of ['', ' ', `${token} `, `${token}=`, 'é'.repeat(token.length)])
      expect(opensReceipt(variant, id, [newer])).toBe(false)
  })

  it('a receipt token opens nothing under a secret with the same value and another name', () => {
    expect(opensReceipt(receiptToken(id, newer), id, [{ ...newer, id: 'third' }])).toBe(false)
  })

  it('a receipt token is not the plain HMAC of the id, which another use of the secret might publish', () => {
    expect(receiptToken(id, newer)).not.toBe(receiptToken(`farebox receipt\0${id}`, newer))
  })
})
