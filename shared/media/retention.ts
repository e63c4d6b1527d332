import { STAGED_UPLOAD_LIFETIME_SECONDS } from './staged-upload.ts'

const DAY_SECONDS = 24 * 3600

/**
 * How long objects are stored. Each class has its own prefix, which a bucket's lifecycle rules match. The service
 * itself deletes objects at their exact expiry; after `backstopDays` the store may delete what the service failed to.
 */
export const RETENTION_CLASSES = {
  staged: { prefix: 'staged', lifetimeSeconds: STAGED_UPLOAD_LIFETIME_SECONDS, backstopDays: 1 },
  speech: { prefix: 'media/speech', lifetimeSeconds: DAY_SECONDS, backstopDays: 2 },
  images: { prefix: 'media/images', lifetimeSeconds: 7 * DAY_SECONDS, backstopDays: 8 },
} as const

/**
 * The least time that its payer must have to fetch the media of a stored result: of one that was withheld, when it is paid
 * for, and of any, when its charge is sent. The difference is for what delays the charge.
 */
export const SHORTEST_MEDIA_LIFE_SECONDS = { whenPaid: 3600, whenCharged: 1800 } as const

export type RetentionClass = keyof typeof RETENTION_CLASSES

/** The classes of result media. */
export const MEDIA_CLASSES = ['speech', 'images'] as const

export type MediaClass = (typeof MEDIA_CLASSES)[number]

/**
 * Returns the object key of an attempt's media. One per attempt, so a rerun never overwrites an earlier result's media.
 */
export function mediaKey(mediaClass: MediaClass, attemptId: string): string {
  return `${RETENTION_CLASSES[mediaClass].prefix}/${attemptId}`
}
