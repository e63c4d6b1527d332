import { createRemoteFacilitator } from '#shared/adapters/remote-facilitator/facilitator-client.ts'
import { createRemoteVerifier } from '#shared/adapters/remote-facilitator/verifier.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createBlockReader } from '#shared/chain/reading/block-reader.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { SettlementSteps } from '../../../workers/job/step-outcome.ts'
import { watchFinality } from '../../../workers/settlement/own-keys/watch-finality.ts'
import { createRemoteSettlement } from '../../../workers/settlement/remote-facilitator/settle-remotely.ts'
import { watchRemoteFinality } from '../../../workers/settlement/remote-facilitator/watch-remote-finality.ts'
import { PATIENCE_MS } from '../patience.ts'
import type { TestWorker } from '../processes/test-worker.ts'

/**
 * Returns the settlement of a worker whose FACILITATOR_URL is `url`, with the test worker's ledger and chain access.
 */
export interface RemoteSettling {
  readonly facilitator: RemoteFacilitator
  readonly verifier: AuthorizationVerifier
  readonly settlementSteps: SettlementSteps
  /** Runs the finality watchers of such a worker once, and returns what the one of its facilitator did. */
  readonly watch: () => Promise<number>
}

export function settleRemotely(
  { ledger, dependencies, proxy }: TestWorker,
  url: string,
  { timeoutMs = PATIENCE_MS, ...store }: Partial<SettlementStore> & { timeoutMs?: number } = {},
): RemoteSettling {
  const chain = createChainClient(proxy.url, PATIENCE_MS)
  const own = createAuthorizationVerifier(chain, 8453)
  const options = { url, apiKey: undefined, timeoutMs, confirmations: 1 }
  const facilitator = createRemoteFacilitator(options, chain, own)
  const { receiptSecretId, blockWatch, now, logger } = dependencies
  return {
    facilitator,
    verifier: createRemoteVerifier(options, own),
    settlementSteps: createRemoteSettlement({
      settlementStore: { ...ledger.settlement, ...store },
      facilitator,
      blockWatch,
      receiptSecretId,
      now,
      logger,
    }),
    watch: async () => {
      const { settlement: settlementStore } = ledger
      const blocks = createBlockReader(chain)
      const ofOwnKeys = { network: 'eip155:8453', feeBumpAfterMs: 0, nativeTokenUsd: 0 }
      await watchFinality({ ...dependencies, ...ofOwnKeys, settlementStore, blocks }).run()
      return await watchRemoteFinality({ settlementStore, facilitator, blocks, logger }).run()
    },
  }
}
