import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { SigningKey } from '../../../client/receipts/signing-keys.ts'
import { canonicalJson } from '../../../client/wire/json.ts'
import type { Receipt } from '../../../client/wire/schemas.ts'

export const KID = 'did:web:farebox.example#k1'

/** Keys of a service, as it signs with and publishes them. */
export function createKeys(): { readonly privateKey: KeyObject; readonly key: SigningKey } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const { x = '' } = publicKey.export({ format: 'jwk' })
  return { privateKey, key: { kid: KID, kty: 'OKP', crv: 'Ed25519', x } }
}

/** Signs as RFC 7515 (appendix F) has it. */
export function signReceipt(
  receipt: Receipt,
  privateKey: KeyObject,
  header: object = { alg: 'EdDSA', kid: KID, typ: 'farebox-receipt' },
): Receipt {
  const fields: Record<string, unknown> = { ...receipt, signature: undefined }
  const [head, body] = [JSON.stringify(header), canonicalJson(fields)].map((text) =>
    Buffer.from(text).toString('base64url'),
  )
  const signature = sign(null, Buffer.from(`${head}.${body}`), privateKey).toString('base64url')
  return { ...receipt, signature: `${head}..${signature}` }
}

/** A receipt of a transcription of 100 s at 0.122 USD an hour: 0.003388… is rounded up to 3,389, and 5,034 is the minimum. */
export function receiptOf(changes: Partial<Receipt> = {}): Receipt {
  return {
    id: '11111111-1111-4111-8111-111111111111',
    object: 'receipt',
    operation: 'createTranscription',
    model: 'speechvendor/scribe-v2',
    usage: { input_audio_ms: 100_000 },
    unit_prices: { price_per_audio_hour_usd: '0.122', minimum_charge_usd: '0.005034', maximum_charge_usd: '1' },
    catalog_version: 'c',
    price_version: 'p',
    quoted_maximum_atomic: '5034',
    authorized_maximum_atomic: '5034',
    charge_atomic: '5034',
    charge_usdc: '0.005034',
    calculation: {
      lines: [
        {
          usage: 'input_audio_ms',
          measured: 100_000,
          at_most: null,
          quantity: '100000',
          unit: 'millisecond',
          unit_price_usd: '0.122',
          per_units: '3600000',
          product_usd: '61/18000',
        },
      ],
      sum_usd: '61/18000',
      rounding: 'up',
      rounded_atomic: '3389',
      minimum_atomic: '5034',
      maximum_atomic: '5034',
      applied: 'minimum',
      charge_atomic: '5034',
    },
    currency: 'USDC',
    payer: `0x${'a'.repeat(40)}`,
    pay_to: `0x${'b'.repeat(40)}`,
    network: 'eip155:8453',
    asset: `0x${'c'.repeat(40)}`,
    transaction: `0x${'d'.repeat(64)}`,
    block_number: '1',
    request_digest: 'r',
    result_digest: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    accepted_at: '2026-11-22T00:00:00.000Z',
    settled_at: '2026-11-22T00:00:01.000Z',
    issued_at: '2026-11-22T00:00:02.000Z',
    settlement: { state: 'confirmed', transaction: `0x${'d'.repeat(64)}`, block_number: '1' },
    signature: '',
    ...changes,
  }
}
