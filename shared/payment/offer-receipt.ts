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

/** Signs the `accepts` entry of a challenge for `resourceUrl`. Returns the challenge's `extensions`. */
export function offerExtension(
  signer: StatementSigner,
  resourceUrl: string,
  { scheme, network, asset, payTo, amount }: OfferedTerms,
  validUntil: Date,
) {
  const signature = signer.sign({
    version: VERSION,
    resourceUrl,
    scheme,
    network,
    asset,
    payTo,
    amount,
    validUntil: unixSeconds(validUntil),
  })
  return {
    [OFFER_RECEIPT]: { info: { offers: [{ format: 'jws', acceptIndex: 0, signature }] }, schema: EXTENSION_SCHEMA },
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
