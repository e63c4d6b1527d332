import { createHmac, randomBytes } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../files/files.ts'
import { withLock } from '../journal/lock.ts'
import { FareboxError, uncharged } from '../wire/farebox-error.ts'
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
  const random = home === null ? (drawn ??= randomBytes(SECRET_BYTES)) : await storedSecret(home)
  const secret = createHmac('sha256', random).update(wallet.address.toLowerCase()).digest()
  return { secret: new Uint8Array(secret), source: 'journal' }
}

/** A journal in memory remembers no keys, so its secret need not outlive the process either. */
let drawn: Buffer | undefined

/** Reads the secret, or draws it once for all processes. A process that is killed meanwhile leaves no part of it. */
async function storedSecret(home: string): Promise<Buffer> {
  const path = join(home, SECRET_FILE)
  try {
    const stored = await readStored(path)
    if (stored !== null) return stored
    await mkdir(home, { recursive: true, mode: 0o700 })
    return await withLock(home, async () => (await readStored(path)) ?? (await drawStored(path)))
  } catch (error) {
    throw error instanceof FareboxError ? error : secretError(path, error)
  }
}

async function readStored(path: string): Promise<Buffer | null> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (text === null) return null
  if (!/^[0-9a-f]{64}$/.test(text.trim())) throw new Error('it has another form')
  return Buffer.from(text.trim(), 'hex')
}

async function drawStored(path: string): Promise<Buffer> {
  const secret = randomBytes(SECRET_BYTES)
  await replaceFile(path, secret.toString('hex'), { mode: 0o600 })
  return secret
}

function secretError(path: string, cause: unknown): FareboxError {
  return uncharged(
    'key_secret_unreadable',
    `The secret of idempotency keys in ${path} cannot be used (${(cause as Error).message}).`,
    'Restore the file. Without it a rerun of finished calls is charged again.',
    cause,
  )
}
