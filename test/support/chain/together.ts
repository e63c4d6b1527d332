import type { Settler } from '#shared/payment/facilitator.ts'
import type { SettlementBatches } from '../../../workers/settlement/own-keys/settlement-batches.ts'

const AT_FIRST = Symbol('payments that are recorded together at first')
interface Gathering {
  readonly [AT_FIRST]?: number
}

/** Lets the first `count` payments of a settler go on together, so that they are gathered into one batch. */
export function together(count: number, settler: Settler): Settler {
  const gathering: Settler & Gathering = { ...settler, [AT_FIRST]: count }
  return gathering
}

/** Returns batches that hold the first payments back until all that `together` names are ready. */
export function holdFirst(settler: object, batches: SettlementBatches): SettlementBatches {
  const { [AT_FIRST]: count } = settler as Gathering
  if (count === undefined) return batches
  const { promise, resolve } = Promise.withResolvers<void>()
  let arrived = 0
  return {
    ...batches,
    record: async (...payment) => {
      arrived += 1
      if (arrived === count) resolve()
      await promise
      return await batches.record(...payment)
    },
  }
}
