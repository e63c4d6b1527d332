import { keyFingerprint, namedFingerprint } from '#shared/operators/key-fingerprint.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import type { ApiConfig } from '../config.ts'

/** Identifies the keys and addresses of this process, in the order of its settings, without revealing a secret. */
export function identifyKeys(config: ApiConfig): ProcessReport['keys'] {
  return {
    PAY_TO: config.PAY_TO,
    SETTLEMENT_CONTRACT: config.SETTLEMENT_CONTRACT === undefined ? [] : [config.SETTLEMENT_CONTRACT],
    FACILITATOR_ADDRESSES: config.FACILITATOR_ADDRESSES ?? [],
    ACCEPTED_FACILITATOR_ADDRESSES: config.ACCEPTED_FACILITATOR_ADDRESSES ?? [],
    CHALLENGE_SECRET: config.CHALLENGE_SECRET.map(keyFingerprint),
    RECEIPT_SECRETS: config.RECEIPT_SECRETS.map(({ id, secret }) => namedFingerprint(id, secret)),
    RECEIPT_SIGNING_KEY: config.RECEIPT_SIGNING_KEY.map(({ id, seed }) => namedFingerprint(id, seed)),
  }
}
