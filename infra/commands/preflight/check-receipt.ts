import { createPublicKey, verify } from 'node:crypto'
import type { Hex } from 'viem'
import { z } from 'zod'
import { checkCharge, checkMaximum } from '#receipts/check-charge.ts'
import { findPayments } from '#receipts/find-payments.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { canonicalJson, type JsonValue } from '#shared/digests/canonical-json.ts'
import { RECEIPT_TYPE, type Receipt } from '#shared/payment/receipt.ts'
import { fetchJson } from './fetch-json.ts'

const RPC_TIMEOUT_MS = 15_000

const headerSchema = z.object({ alg: z.literal('EdDSA'), typ: z.literal(RECEIPT_TYPE), kid: z.string() })
const keySetSchema = z.object({
  keys: z.array(z.object({ kid: z.string(), kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string() })),
})

/** A receipt of the service, and how its holder reaches it. */
export interface ReceiptAccess {
  readonly baseUrl: string
  readonly rpcUrl: string
  readonly receiptId: string
  readonly receiptToken: string
}

/** Returns what is wrong with a receipt: its signature, its charge, or its transfer on chain. Throws when one cannot be read. */
export async function problemsOfReceipt(access: ReceiptAccess): Promise<readonly string[]> {
  const { baseUrl, receiptId, receiptToken } = access
  const url = `${baseUrl}/v1/receipts/${encodeURIComponent(receiptId)}`
  const { status, body } = await fetchJson(url, { headers: { authorization: `Bearer ${receiptToken}` } })
  if (status !== 200) return [`${url} answered ${status}`]
  // What the service has just answered; every part that matters is checked below.
  const receipt = body as Receipt & { readonly signature: string }
  return [
    ...(await problemsOfSignature(receipt, baseUrl)),
    ...[checkMaximum(receipt), ...checkCharge(receipt)].flatMap(({ check, outcome, detail }) =>
      outcome === 'failed' ? [`${check}: ${detail}`] : [],
    ),
    ...(await problemsOfTransfer(receipt, access.rpcUrl)),
  ]
}

async function problemsOfSignature(
  { signature, ...signed }: Receipt & { readonly signature: string },
  baseUrl: string,
): Promise<readonly string[]> {
  const [head = '', , tail = ''] = signature.split('.')
  const { kid } = headerSchema.parse(JSON.parse(Buffer.from(head, 'base64url').toString()))
  const { keys } = keySetSchema.parse((await fetchJson(`${baseUrl}/.well-known/jwks.json`)).body)
  const jwk = keys.find((key) => key.kid === kid)
  if (!jwk) return [`signature: the service does not publish its key ${kid}`]
  const text = `${head}.${Buffer.from(canonicalJson(signed as unknown as JsonValue)).toString('base64url')}`
  const { kty, crv, x } = jwk
  const key = createPublicKey({ key: { kty, crv, x }, format: 'jwk' })
  const isGenuine = verify(null, Buffer.from(text), key, Buffer.from(tail, 'base64url'))
  return isGenuine ? [] : [`signature: it does not match the receipt (key ${kid})`]
}

async function problemsOfTransfer(receipt: Receipt, rpcUrl: string): Promise<readonly string[]> {
  const charge = BigInt(receipt.charge_atomic)
  if (charge === 0n) return []
  const client = createChainClient(rpcUrl, RPC_TIMEOUT_MS)
  const { status, to, logs, blockNumber } = await client.getTransactionReceipt({ hash: receipt.transaction as Hex })
  const { payments } = findPayments(receipt, to, logs)
  const isPaid = payments.some((amounts) => amounts.length === 1 && amounts[0] === charge)
  return [
    ...(status === 'success' ? [] : [`transfer: ${receipt.transaction} was reverted`]),
    ...(isPaid ? [] : [`transfer: ${receipt.transaction} does not move ${charge} from ${receipt.payer}`]),
    ...(blockNumber === BigInt(receipt.block_number)
      ? []
      : [`block: it is ${blockNumber}, not ${receipt.block_number}`]),
  ]
}
