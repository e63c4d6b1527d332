import type { Carrier, Catalog } from '#shared/catalog/catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'

/** What a deployment cannot carry of a request, although others can: leaving it out would change the answer. */
export interface Obstacle<Field extends string> {
  /** The field of the internal request. */
  readonly field: Field
  /** Completes "does not take …". For logs too, so it never contains input. */
  readonly what: string
  /** The caller's own value, for the caller only. */
  readonly given?: string
}

/** Longest part of a caller's value that an error repeats. */
const MAXIMUM_ECHO_LENGTH = 40

/**
 * Throws `request_unsupported` (400) when each of the deployments that serve the model has an obstacle, naming the first
 * one's. Needs no deployment to be free, healthy or even running: what may still be refused later is a race.
 */
export function requireCarrier<Field extends string>(
  catalog: Catalog,
  model: string,
  obstacleOf: (carrier: Carrier) => Obstacle<Field> | undefined,
  paramOf: (field: Field) => string,
): void {
  const carriers = catalog.carriers?.[model] ?? []
  let first: Obstacle<Field> | undefined
  for (const carrier of carriers) {
    const obstacle = obstacleOf(carrier)
    if (obstacle === undefined) return
    first ??= obstacle
  }
  if (first === undefined) return
  const param = paramOf(first.field)
  const got = first.given === undefined ? '' : `; got ${JSON.stringify(first.given.slice(0, MAXIMUM_ECHO_LENGTH))}`
  throw new AppError('request_unsupported', {
    param,
    message: `${param}: ${model} does not take ${first.what}${got}. Nothing was charged.`,
  })
}
