import { randomBytes } from 'node:crypto'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { keyFingerprint, namedFingerprint } from '#shared/operators/key-fingerprint.ts'
import type { KeyKind } from '#shared/operators/key-rotation.ts'
import { Refusal } from '../command-line.ts'
import { apisOf, type KeyFacts, type KeySetting, keysInUse, keysOf, settlersOf } from './facts.ts'
import type { KeysCommand } from './options.ts'
import { isOver } from './plan-rotation.ts'

type RotateRequest = Extract<KeysCommand, { readonly command: 'rotate' }>

const SETTINGS: Readonly<Record<KeyKind, KeySetting>> = {
  settlement: 'FACILITATOR_ADDRESSES',
  'pay-to': 'PAY_TO',
  challenge: 'CHALLENGE_SECRET',
  receipts: 'RECEIPT_SECRETS',
  statements: 'RECEIPT_SIGNING_KEY',
}

/** Chooses the key to replace and generates the new one, of whose value this is the only copy. Throws `Refusal`. */
export function beginRotation(request: RotateRequest, facts: KeyFacts) {
  const { kind, reason } = request
  requireNoneUnfinished(request, facts)
  const oldKey = keyToReplace(request, facts)
  const inUse = [
    ...keysInUse(apisOf(facts), SETTINGS[kind]),
    ...facts.rotations.filter((rotation) => rotation.kind === kind).map((rotation) => rotation.newKey),
  ]
  const newKey = kind === 'pay-to' ? newRecipient(request, facts) : generateKey(kind, inUse)
  return { rotation: { kind, reason, oldKey, newKey: newKey.identity }, newKey }
}

function requireNoneUnfinished({ kind, isForced }: RotateRequest, facts: KeyFacts): void {
  const last = facts.rotations.find((rotation) => rotation.kind === kind)
  if (!last || isForced || isOver(last, facts)) return
  throw new Refusal(
    `${last.operator} started a rotation of this kind at ${last.startedAt.toISOString()}, which is not finished. See "npm run keys -- status", or give it up with --force.`,
  )
}

function keyToReplace({ kind, replaces }: RotateRequest, facts: KeyFacts): string {
  const apis = apisOf(facts)
  if (apis.length === 0)
    throw new Refusal('No API reports to this database, so the key to replace is not known. Start the service first.')
  const used = new Set(
    apis.flatMap((api) => {
      const keys = keysOf(api, SETTINGS[kind])
      return kind === 'settlement' ? keys : keys.slice(0, 1)
    }),
  )
  if (kind === 'settlement' && used.size === 0)
    throw new Refusal('A remote facilitator settles; its keys are not yours to rotate.')
  const [first, ...others] = used
  if (replaces !== null) {
    if (used.has(replaces)) return replaces
    throw new Refusal(`--replaces must be one of ${[...used].join(', ')}`)
  }
  if (first !== undefined && others.length === 0) return first
  throw new Refusal(
    kind === 'settlement'
      ? `There are several settlement keys. Name one with --replaces: ${[...used].join(', ')}`
      : `The APIs do not agree on ${SETTINGS[kind]}: ${[...used].join(', ')}. See "npm run keys -- status".`,
  )
}

function newRecipient({ address }: RotateRequest, facts: KeyFacts): NewKey {
  if (address === null) throw new Error('the new recipient is missing')
  if (keysInUse(apisOf(facts), 'PAY_TO').includes(address)) throw new Refusal(`${address} is in PAY_TO already.`)
  if (keysInUse(settlersOf(facts), 'SETTLEMENT_PRIVATE_KEYS').includes(address))
    throw new Refusal(`${address} is a settlement key. Revenue should go to a key that is kept offline.`)
  return { identity: address, value: address }
}

/** A new key: its value for the settings, and what processes that have it report. */
interface NewKey {
  readonly identity: string
  /** What the settings list, such as `k2:…`. */
  readonly value: string
}

const SECRET_BYTES = 32

/** Generates the value of a kind. `inUse` are the identities that processes report. */
function generateKey(kind: Exclude<KeyKind, 'pay-to'>, inUse: readonly string[]): NewKey {
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
