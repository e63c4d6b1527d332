import { randomUUID } from 'node:crypto'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { NewJob } from '#shared/ledger/acceptance/acceptance.ts'
import { newStagedUpload, type StagedUpload } from '#shared/media/staged-upload.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { EffectiveTranscription, TranscriptionTerms } from '#shared/operations/transcriptions.ts'
import type { ExposureTerms } from '#shared/payment/exposure.ts'
import { testAuthorization } from './test-authorization.ts'

/** The quoted, authorized and charged amount of every test job, unless a test changes it. */
export const TEST_PRICE = atomicAmount(5034n)

const TERMS: TranscriptionTerms = {
  price_per_audio_hour_usd: '0.122',
  minimum_charge_usd: '0.005034',
  maximum_charge_usd: '0.122',
}

export const EFFECTIVE_REQUEST: EffectiveTranscription = {
  operation: 'createTranscription',
  model: 'speechvendor/scribe-v2',
  audio: { sha256: 'a'.repeat(64), bytes: 1000, duration_ms: 2000 },
  file_format: 'other',
  diarize: false,
  timestamps: 'none',
  tag_audio_events: false,
  response_format: 'json',
}

/** Exposure terms of a payer who can pay for anything. */
export const AMPLE_FUNDS: ExposureTerms = {
  maximumOpen: atomicAmount(10n ** 12n),
  needsPermit: false,
  verifiedMsAgo: 0,
  highestPrice: atomicAmount(10n ** 12n),
  funds: {
    balance: atomicAmount(10n ** 12n),
    allowance: atomicAmount(10n ** 12n),
    permitNonce: 0n,
    blockNumber: 1n,
    usedNonces: new Set(),
  },
}

/** A paid transcription request, ready to be accepted. */
export type TestJob = NewJob & { readonly stagedUpload: StagedUpload }

/** Returns a request of a new payer under a new key, which is not bound yet. */
export function newTestJob(overrides: Partial<TestJob> = {}): TestJob {
  const idempotencyKey = overrides.idempotencyKey ?? randomUUID()
  return {
    idempotencyKey,
    operation: 'createTranscription',
    publicModel: 'speechvendor/scribe-v2',
    requestDigest: sha256Hex(idempotencyKey),
    effectiveJson: Buffer.from(JSON.stringify(EFFECTIVE_REQUEST)),
    quote: { quotedMaximum: TEST_PRICE, catalogVersion: 'catalog-test', terms: TERMS },
    authorization: testAuthorization(),
    challengeTokenSha256: sha256Hex('the token of the challenge'),
    stagedUpload: newStagedUpload(),
    exposure: AMPLE_FUNDS,
    clientNetwork: '192.0.2.0/24',
    origin: { requestId: randomUUID(), traceparent: null },
    ...overrides,
  }
}

/** Returns the same request sent again, with another staged upload, as each attempt stages one. */
export function sentAgain(job: TestJob, changes: Partial<TestJob> = {}): TestJob {
  return { ...job, stagedUpload: newStagedUpload(), ...changes }
}

/** Returns the same request sent again with a new authorization of its payer. */
export function paidAgain(job: TestJob): TestJob {
  return sentAgain(job, { authorization: testAuthorization({ payer: job.authorization.payer }) })
}
