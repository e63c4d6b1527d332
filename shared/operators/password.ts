import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'

const scryptOf = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt)

/** OWASP's parameters for 32 MiB: N = 2^15, r = 8, p = 3. */
const COST = { exponent: 15, blockSize: 8, parallelization: 3 } as const
const SALT_BYTES = 16
const HASH_BYTES = 32

type Cost = { readonly exponent: number; readonly blockSize: number; readonly parallelization: number }

/** Returns a password's scrypt hash with its parameters and salt: `scrypt$15$8$3$salt$hash`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const { exponent, blockSize, parallelization } = COST
  const digest = await derive(password, salt, COST)
  return [
    'scrypt',
    exponent,
    blockSize,
    parallelization,
    salt.toString('base64url'),
    digest.toString('base64url'),
  ].join('$')
}

/** A hash of no password, checked for accounts that do not exist: the answer takes as long as for one that does. */
const HASH_OF_NOBODY = ['scrypt', ...Object.values(COST), 'A'.repeat(22), 'A'.repeat(43)].join('$')

/** Returns whether a password has this hash; false, after the same work, without a hash. */
export async function isPassword(password: string, hash: string | null): Promise<boolean> {
  const [scheme, exponent, blockSize, parallelization, salt, digest] = (hash ?? HASH_OF_NOBODY).split('$')
  if (scheme !== 'scrypt' || salt === undefined || digest === undefined) throw new Error('an unknown kind of hash')
  const cost = {
    exponent: Number(exponent),
    blockSize: Number(blockSize),
    parallelization: Number(parallelization),
  }
  const derived = await derive(password, Buffer.from(salt, 'base64url'), cost)
  return timingSafeEqual(derived, Buffer.from(digest, 'base64url')) && hash !== null
}

async function derive(password: string, salt: Buffer, { exponent, blockSize, parallelization }: Cost) {
  const N = 2 ** exponent
  return await scryptOf(password.normalize('NFKC'), salt, HASH_BYTES, {
    N,
    r: blockSize,
    p: parallelization,
    maxmem: 256 * N * blockSize,
  })
}
