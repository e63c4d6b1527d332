import { describe, expect, it } from 'vitest'
import { refuseKeyNames, refuseKeys } from '../../../api/request/private-keys.ts'

const KEY = `0x${'ab'.repeat(32)}`

describe('a private key in _meta', () => {
  it.each([
    [{ private_key: 'x' }],
    [{ 'x-private-key': 'x' }],
    [{ walletPrivateKey: 'x' }],
    [{ 'wallet key': 'x' }],
    [{ signing_key: 'x' }],
    [{ mnemonic: 'x' }],
    [{ seedPhrase: 'x' }],
    [{ recovery_phrase: 'x' }],
    [{ a: { b: [{ secretKey: 'x' }] } }],
    [{ auth: KEY }],
    [{ auth: KEY.slice(2) }],
    [{ a: [[KEY.toUpperCase().replace('0X', '0x')]] }],
    [{ payment: { payload: { private_key: 'x' } } }],
  ])('is refused without its value: %j', (meta) => {
    const refuse = () => refuseKeys(meta, '_meta', ['payment'])
    expect(refuse).toThrow(expect.objectContaining({ code: 'invalid_field' }))
    expect(refuse).toThrow(expect.objectContaining({ message: expect.not.stringContaining('abab') }))
  })

  it.each([
    [{ progressToken: 1 }],
    [{ 'farebox/idempotency-key': 'a1' }],
    [{ traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01` }],
    [{ payment: { payload: { nonce: KEY, signature: `${KEY}${'00'.repeat(33)}` } } }],
    [{ signature: `${KEY}${'00'.repeat(33)}` }],
  ])('is not seen in %j', (meta) => {
    refuseKeys(meta, '_meta', ['payment'])
  })
})

it('a private key in arguments is seen by its name only: a prompt may quote a hash', () => {
  expect(() => refuseKeyNames({ wallet_key: KEY }, 'the arguments')).toThrow(
    expect.objectContaining({ code: 'invalid_field' }),
  )
  refuseKeyNames({ prompt: KEY, seed: 3 }, 'the arguments')
})
