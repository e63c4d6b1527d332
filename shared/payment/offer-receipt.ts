import type { StatementSigner } from './statement-signer.ts'

/**
 * The x402 extension `offer-receipt`: what was offered in a 402 and what was delivered in a 200, signed by this origin's
 * key as a JWS, which official clients verify by the `did:web` in it. The package's own issuer reads the clock; ours is given
 * every time, so that replays are equal byte for byte. Source: x402 specification, extension offer and receipt 1.0.
 */
const OFFER_RECEIPT = 'offer-receipt'
const VERSION = 1

/** One `accepts` entry, as far as an offer states it. */
interface OfferedTerms {
  readonly scheme: string
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly amount: string
}

/** Signs the one `accepts` entry of a challenge for `resourceUrl`; goes into the challenge's `extensions`. */
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
    [OFFER_RECEIPT]: { info: { offers: [{ format: 'jws', acceptIndex: 0, signature }] }, schema: offersSchema },
  }
}

/** Who paid for which resource, when and by which transaction. */
interface Delivery {
  readonly resourceUrl: string
  readonly network: string
  readonly payer: string
  readonly transaction: string
  readonly issuedAt: Date
}

/** Signs that the paid result was delivered; goes into the settlement response's `extensions`. */
export function deliveryExtension(signer: StatementSigner, { issuedAt, transaction, ...delivery }: Delivery) {
  const signature = signer.sign({
    version: VERSION,
    ...delivery,
    issuedAt: unixSeconds(issuedAt),
    // A charge of zero has no transaction.
    ...(transaction === '' ? {} : { transaction }),
  })
  return { [OFFER_RECEIPT]: { info: { receipt: { format: 'jws', signature } }, schema: receiptSchema } }
}

function unixSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000)
}

/* The package's schemas without the EIP-712 form, which is not used here: headers have to stay short. */
const text = { type: 'string' }
const signed = { format: { const: 'jws' }, signature: text }

const offersSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: {
    offers: {
      type: 'array',
      items: {
        type: 'object',
        properties: { ...signed, acceptIndex: { type: 'integer' } },
        required: ['format', 'signature'],
      },
    },
  },
  required: ['offers'],
}

const receiptSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: { receipt: { type: 'object', properties: signed, required: ['format', 'signature'] } },
  required: ['receipt'],
}
