import type { BatchSizes } from '../stack/batch-trouble.ts'
import type { CampaignStack } from '../stack/stack.ts'

/** A drawn fault: the resources that it needs exclusively, and its action, which ends healed. */
export interface Fault {
  readonly name: string
  /** Faults of one resource never overlap: each heals what it broke, and nothing else. */
  readonly resource: string
  /** One of batches waits for a batch of `leastPayments`, and returns the sizes of those that it met. */
  inject(stack: CampaignStack, leastPayments?: number): Promise<BatchSizes | void>
}
