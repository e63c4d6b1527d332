import { LRUCache } from 'lru-cache'
import type { StatementSigner } from './statement-signer.ts'

/**
 * The x402 extension `offer-receipt`: the offer of a 402 and the delivery of a 200, each a JWS signed by this origin's
 * key, which official clients verify through its `did:web`. The x402 package's own issuer reads the clock; here every
 * time is passed in, so replays are equal byte for byte. Source: x402 specification, extension offer and receipt 1.0.
 */
const OFFER_RECEIPT = 'offer-receipt'
const VERSION = 1

/**
 * The schema of an extension's `info`, which the protocol requires (x402 v2, 5.1.2) and no official client reads. The
 * packages' own fill the 4 KB that nginx takes of an answer's head.
 */
export const EXTENSION_SCHEMA = { type: 'object' } as const

/** The part of an `accepts` entry that an offer states. */
interface OfferedTerms {
  readonly scheme: string
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly amount: string
}

/** Offers of the same price in the same second are one statement, and signing costs as much as pricing a request. */
const REMEMBERED_OFFERS = 1000

/** Writes the offer of a challenge for `resourceUrl`, which is valid until a time: the challenge's `extensions`, as JSON. */
export type OfferWriter = (resourceUrl: string, accepted: OfferedTerms, validUntil: Date) => string

/** Creates a writer that signs each `accepts` entry once. */
export function createOfferWriter(signer: StatementSigner): OfferWriter {
  const written = new LRUCache<string, string>({ max: REMEMBERED_OFFERS })
  return (resourceUrl, { scheme, network, asset, payTo, amount }, date) => {
    const validUntil = unixSeconds(date)
    const key = [resourceUrl, scheme, network, asset, payTo, amount, validUntil].join(' ')
    const known = written.get(key)
    if (known !== undefined) return known
    const terms = { version: VERSION, resourceUrl, scheme, network, asset, payTo, amount, validUntil }
    const offers = [{ format: 'jws', acceptIndex: 0, signature: signer.sign(terms) }]
    const json = JSON.stringify({ [OFFER_RECEIPT]: { info: { offers }, schema: EXTENSION_SCHEMA } })
    written.set(key, json)
    return json
  }
}

/** A paid delivery: payer, resource, time and transaction. */
interface Delivery {
  readonly resourceUrl: string
  readonly network: string
  readonly payer: string
  readonly transaction: string
  readonly issuedAt: Date
}

/** Signs that the paid result was delivered. Returns the settlement response's `extensions`. */
export function deliveryExtension(signer: StatementSigner, { issuedAt, transaction, ...delivery }: Delivery) {
  const signature = signer.sign({
    version: VERSION,
    ...delivery,
    issuedAt: unixSeconds(issuedAt),
    // A charge of zero has no transaction.
    ...(transaction === '' ? {} : { transaction }),
  })
  return { [OFFER_RECEIPT]: { info: { receipt: { format: 'jws', signature } }, schema: EXTENSION_SCHEMA } }
}

function unixSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000)
}
