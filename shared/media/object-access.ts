import type { RetentionClass } from './retention.ts'

export type ObjectOperation = 'put' | 'get' | 'list' | 'delete'

/** What a process does with the objects of each retention class. */
export type ObjectAccess = Readonly<Record<RetentionClass, readonly ObjectOperation[]>>

/**
 * What each process does in the bucket, and no more: the policies of `infra/stores.md` grant exactly this. The API stages
 * uploads, which it cannot read, and serves media; workers read uploads, write media, and delete both. The API lists
 * nothing, but without that right S3 answers 403 instead of 404 for a missing object.
 */
export const OBJECT_ACCESS = {
  api: {
    staged: ['put', 'list', 'delete'],
    speech: ['get', 'list'],
    images: ['get', 'list'],
  },
  worker: {
    staged: ['get', 'list', 'delete'],
    speech: ['put', 'list', 'delete'],
    images: ['put', 'list', 'delete'],
  },
} as const satisfies Record<string, ObjectAccess>

/** Every operation, for an operator who prepares the bucket. */
export const FULL_ACCESS: ObjectAccess = {
  staged: ['put', 'get', 'list', 'delete'],
  speech: ['put', 'get', 'list', 'delete'],
  images: ['put', 'get', 'list', 'delete'],
}

/** The processes that store objects. */
export type ObjectUser = keyof typeof OBJECT_ACCESS
