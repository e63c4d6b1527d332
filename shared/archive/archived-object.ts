import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'

const compress = promisify(gzip)
const decompress = promisify(gunzip)

/** The first part of each key. No lifecycle rule of the bucket expires what is under it. */
export const ARCHIVE_PREFIX = 'archive'

const FORMAT = 'farebox-archive-1'

/** An archived object as the ledger records it. */
export interface RecordedObject {
  readonly key: string
  /** Of the stored bytes, in hexadecimal. */
  readonly sha256: string
}

/** An object to store, and what the ledger records of it. */
export interface PackedObject extends RecordedObject {
  readonly bytes: Uint8Array
  readonly uncompressedBytes: number
}

/** The stored bytes are not the archived ones, or there are none. */
export class DamagedObject extends Error {
  override name = 'DamagedObject'
}

/**
 * Packs lines of JSON into an object: gzip over a first line that names format and month, and the lines in their order.
 * The key contains the digest, so that a run that is repeated writes the same bytes under the same key.
 */
export async function packObject(month: string, lines: readonly string[]): Promise<PackedObject> {
  const text = Buffer.from(`${[JSON.stringify({ format: FORMAT, month }), ...lines].join('\n')}\n`)
  const bytes = await compress(text)
  const sha256 = sha256Of(bytes)
  return { key: `${ARCHIVE_PREFIX}/calls/${month}-${sha256}`, sha256, bytes, uncompressedBytes: text.length }
}

/** Returns the lines of an object. Throws `DamagedObject` unless the bytes are exactly the recorded ones. */
export async function unpackObject(
  { key, sha256 }: RecordedObject,
  bytes: Uint8Array | null,
): Promise<readonly string[]> {
  if (bytes === null) throw new DamagedObject(`${key} is missing in the object store`)
  if (sha256Of(bytes) !== sha256) throw new DamagedObject(`${key} has other bytes than were archived`)
  const [, ...lines] = (await decompress(bytes)).toString().trimEnd().split('\n')
  return lines
}

function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
