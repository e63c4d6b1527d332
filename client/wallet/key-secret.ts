import { createHmac, randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { FareboxError } from '../wire/farebox-error.ts'
import type { Wallet } from './wallet.ts'

/** What idempotency keys are derived from. */
export interface KeySecret {
  readonly secret: Uint8Array
  /** `journal`: the wallet's signatures differ each time, so the secret is lost with the journal. */
  readonly source: 'wallet' | 'journal'
}

const SECRET_FILE = 'key-secret'
const SECRET_BYTES = 32

/**
 * Returns the secret of a wallet's idempotency keys: derived from the wallet, or for a wallet whose signatures differ each
 * time, from a random secret next to the journal.
 */
export async function readKeySecret(wallet: Wallet, home: string | null): Promise<KeySecret> {
  const derived = await wallet.keySecret()
  if (derived !== null) return { secret: derived, source: 'wallet' }
  const random = home === null ? processSecret() : storedSecret(home)
  const secret = createHmac('sha256', random).update(wallet.address.toLowerCase()).digest()
  return { secret: new Uint8Array(secret), source: 'journal' }
}

let drawn: Buffer | undefined

/** A journal in memory remembers no keys, so its secret need not outlive the process either. */
function processSecret(): Buffer {
  drawn ??= randomBytes(SECRET_BYTES)
  return drawn
}

/** Reads the secret, or draws it once for all processes. */
function storedSecret(home: string): Buffer {
  const path = join(home, SECRET_FILE)
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 })
    // Created exclusively: of two processes, one draws the secret and the other one reads it.
    writeFileSync(path, randomBytes(SECRET_BYTES).toString('hex'), { flag: 'wx', mode: 0o600, flush: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw secretError(path, error)
  }
  const text = readFileSync(path, 'utf8').trim()
  if (!/^[0-9a-f]{64}$/.test(text)) throw secretError(path, new Error('it has another form'))
  return Buffer.from(text, 'hex')
}

function secretError(path: string, cause: unknown): FareboxError {
  return new FareboxError({
    code: 'key_secret_unreadable',
    problem: `The secret of idempotency keys in ${path} cannot be used (${(cause as Error).message}).`,
    money: 'none',
    advice: 'Restore the file. Without it a rerun of finished calls is charged again.',
    cause,
  })
}
