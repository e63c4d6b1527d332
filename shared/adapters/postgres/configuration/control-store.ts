import type { ControlStore } from '#shared/operators/control-store.ts'
import type { Pool } from '../pool.ts'
import { controlDeployment } from './control-deployment.ts'
import { controlQueue } from './control-queue.ts'
import { readDeploymentControls, readQueueControls } from './read-controls.ts'

/** Creates the store of what operators switch without a publication. */
export function createControlStore(pool: Pool): ControlStore {
  return {
    readDeploymentControls: () => readDeploymentControls(pool),
    readQueueControls: () => readQueueControls(pool),
    controlDeployment: (author, change) => controlDeployment(pool, author, change),
    controlQueue: (author, change) => controlQueue(pool, author, change),
  }
}
