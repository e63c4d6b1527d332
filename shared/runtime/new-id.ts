import { randomUUIDv7 } from 'node:crypto'

/**
 * Returns a new id of a row or a request: a UUID of version 7, which begins with the time. Ids of one moment are neighbors
 * in every index over them. Random ones would each change a page of their own, which PostgreSQL reads, and writes to its
 * log as a whole after every checkpoint. Those of one millisecond are in no order. Tells when it was made, so it is not a
 * secret.
 */
export function newId(): string {
  return randomUUIDv7()
}
