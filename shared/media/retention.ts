import { STAGED_UPLOAD_LIFETIME_SECONDS } from './staged-upload.ts'

const DAY_SECONDS = 24 * 3600

/**
 * What is stored for how long. Objects of a class share a prefix, so that a bucket's lifecycle rules can tell them apart.
 * Expiry itself is exact to the second and ours; `backstopDays` is when a store may delete what we failed to.
 */
export const retentionClasses = {
  staged: { prefix: 'staged', lifetimeSeconds: STAGED_UPLOAD_LIFETIME_SECONDS, backstopDays: 1 },
  /** The specification's 24 hours. */
  speech: { prefix: 'media/speech', lifetimeSeconds: DAY_SECONDS, backstopDays: 2 },
  /** The specification's seven days. */
  images: { prefix: 'media/images', lifetimeSeconds: 7 * DAY_SECONDS, backstopDays: 8 },
} as const

/** The classes of result media. */
export const mediaClasses = ['speech', 'images'] as const

export type MediaClass = (typeof mediaClasses)[number]

/** One object for each attempt: a rerun never overwrites what an earlier result points to. */
export function mediaKey(mediaClass: MediaClass, attemptId: string): string {
  return `${retentionClasses[mediaClass].prefix}/${attemptId}`
}
