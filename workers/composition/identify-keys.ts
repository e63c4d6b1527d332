import { privateKeyToAddress } from 'viem/accounts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import type { WorkerConfig } from '../config.ts'

/** Identifies the keys of this process without revealing them. */
export function identifyKeys({
  SETTLEMENT_PRIVATE_KEYS: settlementKeys = [],
  SETTLEMENT_CONTRACT: contract,
  RECEIPT_SECRET_ID: receiptSecretId,
}: WorkerConfig): ProcessReport['keys'] {
  return {
    SETTLEMENT_PRIVATE_KEYS: settlementKeys.map((key) => privateKeyToAddress(key).toLowerCase()),
    ...(contract === undefined ? {} : { SETTLEMENT_CONTRACT: [contract] }),
    RECEIPT_SECRET_ID: [receiptSecretId],
  }
}
