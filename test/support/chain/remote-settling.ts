import { createAuthorizationVerifier } from '#shared/adapters/chain/authorization-verifier.ts'
import { createBlockReader } from '#shared/adapters/chain/block-reader.ts'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { createRemoteSettlementStore } from '#shared/adapters/postgres/settlement/remote-settlement.ts'
import { createSettlementStore } from '#shared/adapters/postgres/stores.ts'
import { createRemoteFacilitator } from '#shared/adapters/remote-facilitator/facilitator.ts'
import { createRemoteVerifier } from '#shared/adapters/remote-facilitator/verifier.ts'
import type { RemoteSettlementStore } from '#shared/jobs/remote-settlement-store.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import { createRemoteSettlement } from '../../../workers/settlement/remote-facilitator/settle-charge.ts'
import { watchRemoteFinality } from '../../../workers/settlement/remote-facilitator/watch-finality.ts'
import type { SettlementSteps } from '../../../workers/settlement/settlement-steps.ts'
import { PATIENCE_MS } from '../patience.ts'
import type { TestWorker } from '../processes/test-worker.ts'

/** The payment side of a worker whose FACILITATOR_URL is `url`, over the test worker's ledger and its way to the chain. */
export interface RemoteSettling {
  readonly facilitator: RemoteFacilitator
  readonly verifier: AuthorizationVerifier
  readonly settlementSteps: SettlementSteps
  /** One round of the finality watcher. */
  readonly watch: () => Promise<number>
}

export function settleRemotely(
  { ledger, dependencies, proxy }: TestWorker,
  url: string,
  { timeoutMs = PATIENCE_MS, ...store }: Partial<RemoteSettlementStore> & { timeoutMs?: number } = {},
): RemoteSettling {
  const chain = createChainClient(proxy.url, PATIENCE_MS)
  const own = createAuthorizationVerifier(chain, 8453)
  const options = { url, apiKey: undefined, timeoutMs, confirmations: 1 }
  const facilitator = createRemoteFacilitator(options, chain, own)
  const settlements = createRemoteSettlementStore(ledger.pool)
  const { receiptSecretId, now, logger } = dependencies
  return {
    facilitator,
    verifier: createRemoteVerifier(options, own),
    settlementSteps: createRemoteSettlement({
      store: { ...ledger.execution, ...settlements, ...store },
      facilitator,
      receiptSecretId,
      now,
      logger,
    }),
    watch: () =>
      watchRemoteFinality({
        settlements: { ...createSettlementStore(ledger.pool), ...settlements },
        facilitator,
        blocks: createBlockReader(chain),
        logger,
      }).run(),
  }
}
