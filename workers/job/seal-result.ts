import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { type JsonValue, jsonText, sha256Hex } from '#shared/digests/canonical-json.ts'
import type { LeasedJob, MeasuredWork, NewResult } from '#shared/jobs/job.ts'
import { hashMediaToken, type Media, mediaUrl, newMediaToken } from '#shared/media/media.ts'
import { mediaKey, RETENTION_CLASSES } from '#shared/media/retention.ts'
import { operationById } from '#shared/operations/registry.ts'
import type { Product } from '../executions/execution.ts'
import type { JobDependencies } from './dependencies.ts'

const storedUsageSchema = z.record(z.string(), z.int())

/**
 * Stores the media of a product, then returns the exact response text, its charge and the record of the media. The
 * charge is computed from measured usage under the terms of the quote and never exceeds the authorized maximum.
 */
export async function sealProduct(
  { media, publicBaseUrl, now, logger }: JobDependencies,
  job: LeasedJob,
  attemptId: string,
  product: Product,
  giveUpAt: Date,
): Promise<{ sealed: NewResult; media: Media | null }> {
  if (product.media) {
    const { bytes, mediaClass } = product.media
    const objectKey = mediaKey(mediaClass, attemptId)
    await retryUntil({ now, logger }, 'storing media', giveUpAt, () => media.put(objectKey, bytes))
  }
  // The lifetime starts once the media are stored.
  const createdAt = now()
  const { result, record } = renderResult(publicBaseUrl, attemptId, product, createdAt)
  const { usage, charge } = measure(job, product.usage)
  const resultBody = jsonText(operationById(job.operation).resultSchema.parse(result) as object)
  return {
    sealed: { usage, chargeAmount: charge, resultBody, resultDigest: sha256Hex(resultBody) },
    media: record,
  }
}

/** Returns the usage of a call and its charge under the terms of the quote. Throws when it is not usage of the operation. */
export function measure(job: LeasedJob, reported: JsonValue): Pick<MeasuredWork, 'usage' | 'charge'> {
  const operation = operationById(job.operation)
  const usage = operation.usageSchema.parse(reported)
  const charge = operation.charge(usage, operation.termsSchema.parse(job.terms))
  const { authorizedMaximum } = job.authorization
  return { usage: storedUsageSchema.parse(usage), charge: charge < authorizedMaximum ? charge : authorizedMaximum }
}

/** Returns the public result and the record of its media. */
function renderResult(
  publicBaseUrl: string,
  attemptId: string,
  product: Product,
  createdAt: Date,
): { result: unknown; record: Media | null } {
  if (product.media === null) return { result: product.result(null, createdAt), record: null }
  const { bytes, contentType, mediaClass } = product.media
  const token = newMediaToken()
  // Whole seconds, as in the result and in the media route.
  const expiresAt = new Date(
    (Math.floor(createdAt.getTime() / 1000) + RETENTION_CLASSES[mediaClass].lifetimeSeconds) * 1000,
  )
  const sha256 = sha256Hex(bytes)
  return {
    result: product.result({ url: mediaUrl(publicBaseUrl, token), expiresAt }, createdAt),
    record: {
      objectKey: mediaKey(mediaClass, attemptId),
      tokenSha256: hashMediaToken(token),
      contentType,
      sha256,
      bytes: bytes.length,
      expiresAt,
    },
  }
}

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2000

/**
 * Retries `work` until it succeeds or `giveUpAt` has passed, then throws the last error. Used for provider output,
 * which is only in memory until it is sealed and must survive an outage of a store.
 */
export async function retryUntil<T>(
  { now, logger }: Pick<JobDependencies, 'now' | 'logger'>,
  name: string,
  giveUpAt: Date,
  work: () => Promise<T>,
): Promise<T> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return await work()
    } catch (error) {
      if (now().getTime() + pauseMs >= giveUpAt.getTime()) throw error
      logger.warn(`${name} failed; retrying`, { error })
    }
    await delay(pauseMs)
  }
}
