import type { ResolutionStore } from '#shared/operators/resolution-store.ts'
import type { Pool } from '../pool.ts'
import { findItem } from './find-item.ts'
import { openItems } from './open-items.ts'
import { storeResolution } from './store-resolution.ts'

/** Creates the store of items that a person ends. */
export function createResolutionStore(pool: Pool): ResolutionStore {
  return {
    openItems: (filter, page) => openItems(pool, filter, page),
    findItem: (name) => findItem(pool, name),
    storeResolution: (name, resolution, author) => storeResolution(pool, name, resolution, author),
  }
}
