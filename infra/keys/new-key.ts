import { randomBytes } from 'node:crypto'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { keyFingerprint, namedFingerprint } from '#shared/operators/key-fingerprint.ts'
import type { KeyKind } from '#shared/operators/key-rotation.ts'

/** A new key: its value for the settings, and what processes that have it report. */
export interface NewKey {
  readonly identity: string
  /** What the settings list, such as `k2:…`. */
  readonly value: string
}

const SECRET_BYTES = 32

/** Generates the value of a kind. `inUse` are the identities that processes report. */
export function generateKey(kind: Exclude<KeyKind, 'pay-to'>, inUse: readonly string[]): NewKey {
  if (kind === 'settlement') {
    const privateKey = generatePrivateKey()
    return { identity: privateKeyToAddress(privateKey).toLowerCase(), value: privateKey }
  }
  const secret = randomBytes(SECRET_BYTES).toString('hex')
  if (kind === 'challenge') return { identity: keyFingerprint(secret), value: secret }
  const id = nextId(inUse.map((identity) => identity.split(':')[0] ?? ''))
  return { identity: namedFingerprint(id, secret), value: `${id}:${secret}` }
}

/** Returns the id after the highest `k` and number; ids are never used twice, since receipts name them for good. */
function nextId(ids: readonly string[]): string {
  const numbers = ids.flatMap((id) => (/^k\d{1,9}$/.test(id) ? [Number(id.slice(1))] : []))
  return `k${Math.max(0, ...numbers) + 1}`
}
