import { setTimeout as delay } from 'node:timers/promises'
import { statusOf } from './store-failure.ts'

/** `MalformedXML`: Swift's s3api (2.30.1) takes a PUT of lifecycle rules or of a public access block for that of a bucket. */
const UNKNOWN_CALL = /^(NotImplemented|AccessControlListNotSupported|MalformedXML)$/

/** AWS may return the configuration of a bucket as it was for a moment longer. */
const READINGS = 4
const READING_DELAY_MS = 1000

/**
 * Returns `unsupported` when the store does not know the call: when it refuses it, or accepts it as another one and keeps
 * nothing, which `isKept` finds out.
 */
export async function ifSupported(
  work: Promise<unknown>,
  isKept: () => Promise<boolean> = () => Promise.resolve(true),
): Promise<'done' | 'unsupported'> {
  try {
    await work
  } catch (error) {
    const status = statusOf(error)
    if (status === 501 || status === 405 || (error instanceof Error && UNKNOWN_CALL.test(error.name)))
      return 'unsupported'
    throw error
  }
  for (let reading = 1; reading <= READINGS; reading += 1) {
    if (await isKept()) return 'done'
    await delay(READING_DELAY_MS)
  }
  return 'unsupported'
}
