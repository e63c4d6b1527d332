import { randomUUID } from 'node:crypto'
import { decodePaymentRequiredHeader, encodePaymentRequiredHeader } from '@x402/core/http'
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  extractReceiptFromResponse,
  findAcceptsObjectFromSignedOffer,
  type JWSSignedOffer,
  type JWSSignedReceipt,
  verifyOfferSignatureJWS,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureJWS,
} from '@x402/extensions/offer-receipt'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { operations } from '#shared/operations/registry.ts'
import { type SharedSandbox, useSharedSandbox } from '../support/processes/test-sandbox.ts'
import { until } from '../support/until.ts'

/*
 * The extension's own client functions against a running service. They find the key through the signature's did:web, at
 * /.well-known/did.json.
 */

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

const body = { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 }
const PATH = '/v1/chat/completions'

const send = (idempotencyKey: string, headers: Record<string, string> = {}) =>
  sandbox.post(PATH, body, { idempotencyKey, headers })

const secondNow = () => Math.floor(Date.now() / 1000)

/** Waits for the next second, so a statement dated by the clock would differ from an earlier one. */
async function passSecond(): Promise<void> {
  const before = secondNow()
  await until(() => secondNow() > before)
}

/** Returns the offer of a 402 and the terms that official clients match with it. */
function offerOf(challenge: Response) {
  const required = decodePaymentRequiredHeader(challenge.headers.get('payment-required') ?? '')
  const [decoded, ...others] = decodeSignedOffers(extractOffersFromPaymentRequired(required))
  if (decoded?.signedOffer.format !== 'jws' || others.length > 0) throw new Error('not one JWS offer')
  return { required, decoded, signed: decoded.signedOffer }
}

function receiptOf(answer: Response): JWSSignedReceipt {
  const receipt = extractReceiptFromResponse(answer)
  if (receipt?.format !== 'jws') throw new Error('no JWS receipt')
  return receipt
}

/** Returns the statement with changed values and its old signature. */
function tampered<Statement extends JWSSignedOffer | JWSSignedReceipt>(
  statement: Statement,
  change: Record<string, unknown>,
): Statement {
  const [header = '', payload = '', signature = ''] = statement.signature.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>
  const changed = Buffer.from(JSON.stringify({ ...claims, ...change })).toString('base64url')
  return { ...statement, signature: `${header}.${changed}.${signature}` }
}

async function pay(): Promise<{ challenge: Response; payment: Record<string, string>; key: string; answer: Response }> {
  const key = randomUUID()
  const challenge = await send(key)
  const payment = await sandbox.payer.sign(challenge)
  return { challenge, payment, key, answer: await send(key, payment) }
}

describe('an offer', () => {
  it('the offer of a priced request verifies and states the terms and expiry of accepts[0]', async () => {
    const { required, decoded, signed } = offerOf(await send(randomUUID()))
    const [accepted] = required.accepts
    expect(await verifyOfferSignatureJWS(signed)).toEqual({
      version: 1,
      resourceUrl: `${sandbox.info.baseUrl}${PATH}`,
      scheme: 'upto',
      network: 'eip155:8453',
      asset: accepted?.asset,
      payTo: accepted?.payTo,
      amount: accepted?.amount,
      validUntil: Math.floor(Date.parse(String(accepted?.extra['expiresAt'])) / 1000),
    })
    expect(findAcceptsObjectFromSignedOffer(decoded, required.accepts)).toEqual(accepted)
  })

  it('an offer is the same, byte for byte, when the request is repeated', async () => {
    const key = randomUUID()
    const first = offerOf(await send(key))
    await passSecond()
    expect(offerOf(await send(key)).signed).toEqual(first.signed)
  })

  it('a changed offer does not verify', async () => {
    const { signed } = offerOf(await send(randomUUID()))
    await expect(verifyOfferSignatureJWS(tampered(signed, { amount: '1' }))).rejects.toThrow('signature')
  })

  it.each(operations.map(({ path }) => path))('a probe of %s, which cannot be paid, gets no offer', async (path) => {
    const probe = await fetch(`${sandbox.info.baseUrl}${path}`, { method: 'POST' })
    expect(probe.status).toBe(402)
    const required = decodePaymentRequiredHeader(probe.headers.get('payment-required') ?? '')
    expect(extractOffersFromPaymentRequired(required)).toEqual([])
  })

  it('an offer is unchanged in the 402 of a refused payment', async () => {
    const key = randomUUID()
    const challenge = await send(key)
    const { required, signed } = offerOf(challenge)
    const accepts = required.accepts.map((accepted) => ({ ...accepted, amount: '1' }))
    const headers = { 'payment-required': encodePaymentRequiredHeader({ ...required, accepts }) }
    const refused = await send(key, await sandbox.payer.sign(new Response(null, { status: 402, headers })))
    expect(refused.status).toBe(402)
    expect(offerOf(refused).signed).toEqual(signed)
  })
})

describe('a receipt', () => {
  let paid: Awaited<ReturnType<typeof pay>>
  beforeAll(async () => {
    paid = await pay()
  })

  it('a receipt verifies, matches the offer and the payer, and names the transaction', async () => {
    const { challenge, answer } = paid
    expect(answer.status).toBe(200)
    const receipt = receiptOf(answer)
    const { transaction } = JSON.parse(
      Buffer.from(answer.headers.get('payment-response') ?? '', 'base64').toString(),
    ) as { transaction: string }
    expect(await verifyReceiptSignatureJWS(receipt)).toEqual({
      version: 1,
      network: 'eip155:8453',
      resourceUrl: `${sandbox.info.baseUrl}${PATH}`,
      payer: sandbox.payer.address.toLowerCase(),
      issuedAt: expect.any(Number),
      transaction,
    })
    expect(verifyReceiptMatchesOffer(receipt, offerOf(challenge).decoded, [sandbox.payer.address])).toBe(true)
    expect(verifyReceiptMatchesOffer(receipt, offerOf(challenge).decoded, [sandbox.info.payTo])).toBe(false)
  })

  it('a replay has the same receipt, byte for byte', async () => {
    const { answer, payment, key } = paid
    await passSecond()
    const replay = await send(key, payment)
    expect(replay.status).toBe(200)
    expect(replay.headers.get('payment-response')).toBe(answer.headers.get('payment-response'))
  })

  it('a changed receipt does not verify', async () => {
    const receipt = receiptOf(paid.answer)
    await expect(verifyReceiptSignatureJWS(tampered(receipt, { payer: sandbox.info.payTo }))).rejects.toThrow(
      'signature',
    )
  })
})

it('the service publishes the same keys as a did:web document and as a key set', async () => {
  const read = async (path: string): Promise<unknown> => (await fetch(`${sandbox.info.baseUrl}${path}`)).json()
  const { id, verificationMethod } = (await read('/.well-known/did.json')) as {
    id: string
    verificationMethod: { id: string; publicKeyJwk: { x: string } }[]
  }
  const { keys } = (await read('/.well-known/jwks.json')) as { keys: { kid: string; x: string }[] }
  expect(id).toBe(`did:web:${new URL(sandbox.info.baseUrl).host.replace(':', '%3A')}`)
  expect(verificationMethod.map((method) => [method.id, method.publicKeyJwk.x])).toEqual(
    keys.map(({ kid, x }) => [kid, x]),
  )
  expect(await read('/.well-known/x402')).toMatchObject({ signing: { did: id } })
})
