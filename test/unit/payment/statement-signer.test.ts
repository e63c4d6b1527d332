import { createPublicKey, verify } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createStatementSigner } from '#shared/payment/statement-signer.ts'

const [older, newer] = [
  { id: 'k1', seed: '11'.repeat(32) },
  { id: 'k2', seed: '22'.repeat(32) },
]
const ORIGIN = 'https://farebox.example'
const statement = { price: '12', about: { b: 1, a: 'x' } }

function isGenuine(jws: string, jwk: object, payload?: string): boolean {
  const [head = '', body = '', signature = ''] = jws.split('.')
  const key = createPublicKey({ key: { ...jwk }, format: 'jwk' })
  return verify(null, Buffer.from(`${head}.${payload ?? body}`), key, Buffer.from(signature, 'base64url'))
}

const headerOf = (jws: string) => JSON.parse(Buffer.from(jws.split('.')[0] ?? '', 'base64url').toString()) as unknown

describe('signing a statement', () => {
  it('signs the canonical JSON of a statement with the published key', () => {
    const signer = createStatementSigner(ORIGIN, [older])
    const jws = signer.sign(statement)
    expect(headerOf(jws)).toEqual({ alg: 'EdDSA', kid: 'did:web:farebox.example#k1' })
    expect(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString()).toBe('{"about":{"a":"x","b":1},"price":"12"}')
    expect(isGenuine(jws, signer.publicKeys[0]?.jwk ?? {})).toBe(true)
  })

  it('creates the same signature on every process for any order of fields', () => {
    const [one, other] = [createStatementSigner(ORIGIN, [older]), createStatementSigner(ORIGIN, [older])]
    expect(other.sign({ about: { a: 'x', b: 1 }, price: '12' })).toBe(one.sign(statement))
    expect(other.signDetached(statement, 'type')).toBe(one.signDetached(statement, 'type'))
  })

  it('creates a detached signature that names the kind of statement', () => {
    const signer = createStatementSigner(ORIGIN, [older])
    const detached = signer.signDetached(statement, 'farebox-receipt')
    const payload = signer.sign(statement).split('.')[1] ?? ''
    expect(headerOf(detached)).toMatchObject({ typ: 'farebox-receipt' })
    expect(detached.split('.')[1]).toBe('')
    expect(isGenuine(detached, signer.publicKeys[0]?.jwk ?? {}, payload)).toBe(true)
    const other = Buffer.from('{"price":"13"}').toString('base64url')
    expect(isGenuine(detached, signer.publicKeys[0]?.jwk ?? {}, other)).toBe(false)
  })
})

describe('rotating keys', () => {
  const [before, after] = [createStatementSigner(ORIGIN, [older]), createStatementSigner(ORIGIN, [newer, older])]

  it('signs with the newest key after a rotation', () => {
    expect(headerOf(after.sign(statement))).toMatchObject({ kid: 'did:web:farebox.example#k2' })
  })

  it('publishes both keys after a rotation, so older statements still verify', () => {
    expect(after.publicKeys.map(({ kid }) => kid)).toEqual(['did:web:farebox.example#k2', 'did:web:farebox.example#k1'])
    expect(isGenuine(before.sign(statement), after.publicKeys[1]?.jwk ?? {})).toBe(true)
    expect(isGenuine(before.sign(statement), after.publicKeys[0]?.jwk ?? {})).toBe(false)
  })
})

it.each([
  ['https://farebox.example/', 'did:web:farebox.example'],
  ['https://farebox.example:8443', 'did:web:farebox.example%3A8443'],
  ['http://127.0.0.1:8402', 'did:web:127.0.0.1%3A8402'],
])('derives for the origin %s the DID %s', (origin, did) => {
  expect(createStatementSigner(origin, [older]).did).toBe(did)
})

it('throws without a key', () => {
  expect(() => createStatementSigner(ORIGIN, [])).toThrow('no signing key')
})

it('derives the public key that RFC 8032 states for a seed', () => {
  // Section 7.1, test 1.
  const seed = '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60'
  const [key] = createStatementSigner(ORIGIN, [{ id: 'k1', seed }]).publicKeys
  expect(Buffer.from(key?.jwk.x ?? '', 'base64url').toString('hex')).toBe(
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
  )
})
