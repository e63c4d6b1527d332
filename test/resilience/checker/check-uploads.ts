import type { Ledgers, Violation } from './ledgers.ts'

/** A sweeper's rounds may be this far behind the erasure of a key. */
const DELETION_MS = 10_000

/**
 * I6: after a definite provider result a staged upload has neither key nor object, none is readable past its hour, and
 * nothing in the store is a client's audio in plain.
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
    const { jobId, objectKey, hasDataKey, isPastItsHour, erasedForMs } = upload
    const job = jobs.get(jobId)
    const isPresent = job !== undefined && job.stagedUploadId === upload.id
    const isAwaited = isPresent && unfinished.has(job.state)
    // What the provider may hold anyway stays until its hour, as the specification says.
    const mayStay = !isPresent || isAwaited || ambiguous.has(job.authorizationId)
    const violations: Violation[] = []
    if (hasDataKey && isPastItsHour)
      violations.push({ invariant, jobId, detail: 'an upload is readable past its hour' })
    if (hasDataKey && !mayStay)
      violations.push({ invariant, jobId, detail: `an upload is readable although its job is ${job.state}` })
    if (erasedForMs !== null && erasedForMs > DELETION_MS && keys.has(objectKey))
      violations.push({
        invariant,
        jobId,
        detail: `the object of an upload erased ${erasedForMs} ms ago is still there`,
      })
    return violations
  })
  const plain = objects
    .filter(({ holdsPlaintext }) => holdsPlaintext)
    .map(({ key }): Violation => ({ invariant, jobId: null, detail: `${key} holds a client’s audio in plain` }))
  const known = new Map(objects.map(({ key, sha256 }) => [key, sha256]))
  const damaged = database.media
    .filter(({ objectKey, sha256 }) => known.get(objectKey) !== sha256)
    .map(({ jobId }): Violation => ({ invariant: 'I5', jobId, detail: 'its stored media are missing or changed' }))
  return [...staged, ...plain, ...damaged]
}
