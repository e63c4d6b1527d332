import type { Ledgers, Violation } from './ledgers.ts'

/** A sweeper may delete the object this long after its key was erased. */
const DELETION_MS = 10_000

/**
 * Checks I6: after a definite provider result a staged upload has neither key nor object, none is readable after its
 * hour, and the store contains no client audio in plain.
 */
export function checkUploads({ database, objects }: Ledgers): Violation[] {
  const invariant = 'I6' as const
  const jobs = new Map(database.jobs.map((job) => [job.id, job]))
  const keys = new Set(objects.map(({ key }) => key))
  const ambiguous = new Set(
    database.attempts.filter(({ state }) => state === 'failed_ambiguous').map(({ authorizationId }) => authorizationId),
  )
  const unfinished = new Set(['accepted', 'generating'])
  const staged = database.stagedUploads.flatMap((upload): Violation[] => {
    const { jobId, objectKey, hasDataKey, isPastExpiry, erasedForMs } = upload
    const job = jobs.get(jobId)
    const isPresent = job !== undefined && job.stagedUploadId === upload.id
    const isAwaited = isPresent && unfinished.has(job.state)
    // After an ambiguous failure the upload may stay until its hour (`test/contract/specification.ts`, T14).
    const mayStay = !isPresent || isAwaited || ambiguous.has(job.authorizationId)
    const violations: Violation[] = []
    if (hasDataKey && isPastExpiry)
      violations.push({ invariant, jobId, detail: 'an upload is readable after its hour' })
    if (hasDataKey && !mayStay)
      violations.push({ invariant, jobId, detail: `an upload is readable although its job is ${job.state}` })
    if (erasedForMs !== null && erasedForMs > DELETION_MS && keys.has(objectKey))
      violations.push({
        invariant,
        jobId,
        detail: `the object of an upload erased ${erasedForMs} ms ago still exists`,
      })
    return violations
  })
  const plain = objects
    .filter(({ holdsPlaintext }) => holdsPlaintext)
    .map(({ key }): Violation => ({ invariant, jobId: null, detail: `${key} contains a client’s audio in plain` }))
  const known = new Map(objects.map(({ key, sha256 }) => [key, sha256]))
  const damaged = database.media
    .filter(({ objectKey, sha256 }) => known.get(objectKey) !== sha256)
    .map(({ jobId }): Violation => ({ invariant: 'I5', jobId, detail: 'its stored media are missing or changed' }))
  return [...staged, ...plain, ...damaged]
}
