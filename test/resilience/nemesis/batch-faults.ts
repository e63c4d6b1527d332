import type { ServiceName } from '../../../infra/sandbox/sandbox-options.ts'
import { between, createRandom, pick } from '../calls/random.ts'
import {
  failPartOfBatch,
  killDuringBatch,
  loseLeases,
  refuseLarge,
  reorganizeBatch,
  replaceBatch,
  revertBatch,
  spikeGas,
} from '../stack/batch-trouble.ts'
import type { CampaignStack } from '../stack/stack.ts'
import type { Fault } from './fault.ts'

/** What happens to batches of settlements. */
export const BATCH_KINDS = [
  'batch_reorg',
  'batch_replaced',
  'batch_reverts_in_parts',
  'batch_reverts',
  'batch_too_large',
  'leases_lost',
  'gas_spike',
  'batch_killed',
] as const
export type BatchKind = (typeof BATCH_KINDS)[number]

export function isBatchKind(kind: string): kind is BatchKind {
  return (BATCH_KINDS as readonly string[]).includes(kind)
}

/** Kills a process and starts it again. */
type Kill = (name: ServiceName, stack: CampaignStack) => Promise<void>

const onChain = (name: string, inject: Fault['inject']): Fault => ({ name, resource: 'chain', inject })

/** Draws a fault that waits for a batch; without one in time nothing happens. */
export function drawBatchFault(random: () => number, kind: BatchKind, kill: Kill): Fault {
  switch (kind) {
    case 'batch_reorg': {
      const [seenForMs, depth] = [between(random, 0, 400), between(random, 1, 3)]
      return onChain(`reorganization of ${depth} blocks, ${seenForMs} ms after a batch was mined`, (stack, least) =>
        reorganizeBatch(stack, seenForMs, depth, least),
      )
    }
    case 'batch_replaced': {
      const [waitMs, restores] = [pick(random, [0, 300, 1500]), random() < 0.3]
      const name = `a batch that is replaced${restores ? ' and mined after all' : ''}, ${waitMs} ms later`
      return onChain(name, (stack, least) => replaceBatch(stack, waitMs, restores, least))
    }
    case 'batch_reverts_in_parts': {
      const seed = between(random, 0, 2 ** 31)
      return onChain(`payers of a batch prevent their payments (${seed})`, (stack, least) =>
        failPartOfBatch(stack, createRandom(seed), least),
      )
    }
    case 'batch_reverts': {
      // Mostly noticed by the batch alone; sometimes by those who prepare the next one.
      const unlistedMs = random() < 0.7 ? between(random, 0, 300) : between(random, 300, 2500)
      return onChain(`a batch that reverts as a whole, keys listed again after ${unlistedMs} ms`, (stack, least) =>
        revertBatch(stack, unlistedMs, least),
      )
    }
    case 'batch_too_large': {
      const durationMs = between(random, 0, 1500)
      const name = `no large transactions until ${durationMs} ms after one was refused`
      return { name, resource: 'node', inject: (stack) => refuseLarge(stack, durationMs) }
    }
    case 'leases_lost': {
      const rounds = between(random, 3, 15)
      return {
        name: `leases of half a batch lost, ${rounds} times`,
        resource: 'leases',
        inject: (stack, least) => loseLeases(stack, rounds, least),
      }
    }
    case 'gas_spike': {
      const durationMs = between(random, 300, 2000)
      return onChain(`a gas price spike of ${durationMs} ms while a batch waits`, (stack, least) =>
        spikeGas(stack, durationMs, least),
      )
    }
    case 'batch_killed': {
      const [worker, afterMs] = [pick(random, ['worker', 'worker-2'] as const), between(random, 0, 1000)]
      return {
        name: `kill ${worker}, ${afterMs} ms after a batch was stored`,
        resource: worker,
        inject: (stack, least) => killDuringBatch(stack, () => kill(worker, stack), afterMs, least),
      }
    }
  }
}
