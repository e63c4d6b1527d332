import { decodePaymentRequiredHeader, encodePaymentRequiredHeader } from '@x402/core/http'
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  verifyOfferSignatureJWS,
} from '@x402/extensions/offer-receipt'
import { describe, expect, it } from 'vitest'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { operations } from '#shared/operations/registry.ts'
import { isProbe, mayBeProbe, renderProbeChallenge } from '../../../api/paid-request/challenge/probe-challenge.ts'
import { fixedCatalogs } from '../../support/http/fixed-catalogs.ts'
import { listings, PUBLIC_BASE_URL, signer, terms } from './compose-app.ts'

const NOW = new Date('2026-11-21T00:00:00.700Z')
const dependencies = { catalogs: fixedCatalogs(), terms, listings, signer, now: () => NOW }

describe('a probe', () => {
  it.each([undefined, {}])('a request without a key and with the body %j is a probe', (body) => {
    expect(isProbe({}, body)).toBe(true)
  })

  it.each([[{ model: 'x' }], [[]], [null], ['{}'], [0], [false]])(
    'a request with the body %j is not a probe',
    (body) => {
      expect(isProbe({}, body)).toBe(false)
    },
  )

  it.each(['x-idempotency-key', 'payment-signature'])('a request with the header %s is not a probe', (name) => {
    expect(isProbe({ [name]: '' }, {})).toBe(false)
  })
})

describe('mayBeProbe, before the body is read', () => {
  it.each([{}, { 'content-length': '0' }, { 'content-length': '2', 'content-type': 'application/json' }])(
    'a request with the headers %j may be a probe',
    (headers) => {
      expect(mayBeProbe(headers)).toBe(true)
    },
  )

  it.each([
    { 'content-length': '65' },
    { 'content-length': 'many' },
    { 'transfer-encoding': 'chunked' },
    { 'x-idempotency-key': 'key' },
    { 'payment-signature': 'e30=' },
  ])('a request with the headers %j is not a probe', (headers) => {
    expect(mayBeProbe(headers)).toBe(false)
  })
})

describe.each(operations)('the generic challenge of $id', (operation) => {
  const { status, headers, body: json } = renderProbeChallenge(dependencies, operation, 'request-1')
  const body = JSON.parse(json) as Record<string, unknown>
  const required = decodePaymentRequiredHeader(headers['payment-required'])

  it('a probe challenge is a 402 with the route’s published maximum in header and body [spec L3a]', () => {
    const maxima: Record<string, string> = {
      createChatCompletion: '0.766952',
      createMessage: '0.766952',
      createImageGeneration: '0.035',
      createSpeech: '0.441',
      createTranscription: '0.122',
    }
    const amount = maxima[operation.id]
    expect(status).toBe(402)
    expect(headers['cache-control']).toBe('no-store')
    expect(body).toMatchObject({
      error: 'Payment Required',
      message: expect.stringContaining(`${amount} USDC`),
      price: { amount, currency: 'USDC', type: 'maximum' },
      paymentInfo: { x402Version: 2, scheme: 'upto', network: terms.network, asset: terms.asset },
      request_id: 'request-1',
    })
    expect(Number(required.accepts[0]?.amount)).toBe(Math.round(Number(amount) * 1_000_000))
  })

  it('a probe challenge contains resource and terms, and is not bound to a request [spec L4a, A3, O24]', () => {
    expect(required).toMatchObject({
      x402Version: 2,
      resource: { url: `${PUBLIC_BASE_URL}${operation.path}`, mimeType: 'application/json' },
      accepts: [{ scheme: 'upto', payTo: terms.payTo, maxTimeoutSeconds: terms.maxTimeoutSeconds }],
    })
    expect(required.accepts[0]?.extra).toEqual({
      name: 'USD Coin',
      version: '2',
      assetTransferMethod: 'permit2',
      facilitatorAddress: terms.facilitators[0],
    })
    expect(body['accepts']).toEqual(required.accepts)
  })

  it('a probe challenge has the same header as @x402/core encodes', () => {
    expect(headers['payment-required']).toBe(encodePaymentRequiredHeader(required))
  })

  it('a probe challenge contains a signed offer that is valid as long as a challenge', async () => {
    const [offer] = decodeSignedOffers(extractOffersFromPaymentRequired(required))
    if (offer?.signedOffer.format !== 'jws') throw new Error('The challenge contains no signed offer.')
    const payload = await verifyOfferSignatureJWS(offer.signedOffer, signer.publicKeys[0]?.jwk)
    const [accepted] = required.accepts
    expect(payload).toMatchObject({ resourceUrl: required.resource.url, scheme: 'upto', amount: accepted?.amount })
    expect(payload.validUntil).toBe(Math.floor(NOW.getTime() / 1000) + terms.challengeLifetimeSeconds)
  })
})

it('an operation of an unavailable category has no challenge', () => {
  const [operation] = operations
  if (!operation) throw new Error('there are no operations')
  const catalogs = fixedCatalogs(availableCatalog(publishedCatalog, new Map()))
  expect(() => renderProbeChallenge({ ...dependencies, catalogs }, operation, 'request-1')).toThrow(
    expect.objectContaining({ code: 'model_unavailable' }),
  )
})
