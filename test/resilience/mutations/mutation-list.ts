import type { Violation } from '../checker/ledgers.ts'
import type { ScenarioName } from './scenarios.ts'

/** One defence taken away. Where several defences stand behind each other, all that would hide the loss go together. */
export interface Mutation {
  readonly name: string
  readonly scenario: ScenarioName
  /** What the checker must report, among other things. */
  readonly reports: Violation['invariant']
  /** Exact texts that each stand once in their file. */
  readonly replacements?: readonly { readonly file: string; readonly from: string; readonly to: string }[]
  /** SQL after migration. */
  readonly statements?: readonly string[]
}

const LEDGER = 'shared/adapters/postgres/job-store'

export const mutations: readonly Mutation[] = [
  {
    name: 'a payment nonce can be claimed twice (one_claim_per_nonce)',
    scenario: 'one_payment_two_keys',
    reports: 'I1',
    statements: ['ALTER TABLE authorizations DROP CONSTRAINT one_claim_per_nonce'],
  },
  {
    name: 'duplicates wait neither for the key’s row nor for the payer, and a key may have two jobs',
    scenario: 'simultaneous_duplicates',
    reports: 'I1',
    statements: ['ALTER TABLE jobs DROP CONSTRAINT jobs_idempotency_key_key'],
    replacements: [
      {
        file: `${LEDGER}/accept-job.ts`,
        from: 'WHERE idempotency_key = $1 FOR UPDATE',
        to: 'WHERE idempotency_key = $1',
      },
      {
        // The payer's lock alone keeps them apart as well: the later one looks again and finds the job.
        file: `${LEDGER}/claim-nonce.ts`,
        from: "pg_advisory_xact_lock(hashtextextended('farebox payer ' || network || ' ' || payer, 0))",
        to: 'network',
      },
    ],
  },
  {
    name: 'a lost attempt is called again (one_call_per_authorization holds)',
    scenario: 'lost_worker',
    reports: 'liveness',
    replacements: [
      {
        file: 'workers/job/run-job.ts',
        from: 'return failLostAttempt(dependencies, job)',
        to: 'return callProvider(dependencies, job, signal)',
      },
    ],
  },
  {
    name: 'a lost attempt is called again, and one_call_per_authorization is gone',
    scenario: 'lost_worker',
    reports: 'I3',
    statements: ['DROP INDEX one_call_per_authorization'],
    replacements: [
      {
        file: 'workers/job/run-job.ts',
        from: 'return failLostAttempt(dependencies, job)',
        to: 'return callProvider(dependencies, job, signal)',
      },
    ],
  },
  {
    name: 'the attempt’s row is written after the call',
    scenario: 'lost_worker',
    reports: 'I3',
    replacements: [
      {
        file: 'workers/job/call-provider.ts',
        from: 'const { written, attemptId } = await store.startAttempt(',
        to: `const call = () => slot.run((timeoutMs) => prepared.call(slot.deployment, { signal, timeoutMs }))
    const outcome = await describedStage(tracer, 'provider', call, { deployment: slot.deployment.name })
    const { written, attemptId } = await store.startAttempt(`,
      },
      {
        file: 'workers/job/call-provider.ts',
        from: `    if (written === 'stale') return { next: 'stale' }
    const call = () => slot.run((timeoutMs) => prepared.call(slot.deployment, { signal, timeoutMs }))
    const outcome = await describedStage(tracer, 'provider', call, { deployment: slot.deployment.name })
`,
        to: `    if (written === 'stale') return { next: 'stale' }
`,
      },
    ],
  },
  {
    name: 'a transition is not fenced',
    scenario: 'paused_worker',
    reports: 'I3',
    replacements: [
      {
        file: `${LEDGER}/move-job.ts`,
        from: 'WHERE id = $1 AND fence = $2 AND state = ANY($4)',
        to: 'WHERE id = $1 AND fence >= $2 AND state = ANY($4)',
      },
    ],
  },
  {
    name: 'a result is released while its settlement is pending',
    scenario: 'no_blocks',
    reports: 'I4',
    replacements: [
      {
        file: 'shared/adapters/chain/confirm-transfer.ts',
        from: `if (cause instanceof TransactionReceiptNotFoundError) return { outcome: 'pending' }`,
        to: `if (cause instanceof TransactionReceiptNotFoundError)
      return { outcome: 'confirmed', blockNumber: 1n, blockTimestamp: new Date() }`,
      },
    ],
  },
  {
    name: 'a settlement is sent before it is stored',
    scenario: 'ledger_fails_while_signing',
    reports: 'I1',
    replacements: [
      {
        file: `${LEDGER}/record-settlement.ts`,
        from: 'const transaction = await settlement.sign(accountNonce)',
        to: `const transaction = await settlement.sign(accountNonce)
    await fetch(String(process.env['RPC_URL']), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_sendRawTransaction', params: [transaction.raw] }),
    })`,
      },
    ],
  },
  {
    name: 'account nonces are not given back with the transaction that took them',
    scenario: 'ledger_fails_while_signing',
    reports: 'nonce-gap',
    statements: [
      'CREATE SEQUENCE taken_nonces MINVALUE 0 START 0',
      `CREATE FUNCTION take_for_good() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.next_account_nonce := nextval('taken_nonces') + 1; RETURN NEW; END $$`,
      `CREATE TRIGGER nonces_without_rollback BEFORE INSERT OR UPDATE ON settlement_accounts
        FOR EACH ROW EXECUTE FUNCTION take_for_good()`,
    ],
  },
  {
    name: 'a replay does not ask who paid',
    scenario: 'stranger',
    reports: 'I4',
    replacements: [
      {
        file: 'api/paid-request/job/find-own-job.ts',
        from: `if (holder.payer !== authorization.payer) throw new AppError('idempotency_key_reused')`,
        to: '',
      },
    ],
  },
  {
    name: 'the payment is not checked again before the call',
    scenario: 'funds_moved',
    reports: 'I3',
    replacements: [
      {
        file: 'workers/job/check-payment-again.ts',
        from: `if (verification.outcome === 'refused')`,
        to: `if (verification.outcome === 'refused' && false)`,
      },
    ],
  },
  {
    name: 'an ambiguous failure leads to the next deployment',
    scenario: 'ambiguous_failure',
    reports: 'I3',
    replacements: [
      {
        file: 'workers/job/call-provider.ts',
        from: `if (code !== 'provider_unavailable' || outcome.certainty !== 'definite') break`,
        to: '',
      },
    ],
  },
  {
    name: 'the signature of a failed attempt pays again, and one_claim_per_nonce is gone',
    scenario: 'ambiguous_failure',
    reports: 'I1',
    statements: ['ALTER TABLE authorizations DROP CONSTRAINT one_claim_per_nonce'],
    replacements: [
      {
        file: 'api/paid-request/job/find-own-job.ts',
        from: 'return claimedFor !== null || !mayBePaidAfresh ? holder.jobId : null',
        to: 'return !mayBePaidAfresh ? holder.jobId : null',
      },
    ],
  },
  {
    name: 'the key of a staged upload is kept with the result',
    scenario: 'plain_calls',
    reports: 'I6',
    replacements: [
      { file: `${LEDGER}/seal-result.ts`, from: '...erasedUpload(job.stagedUploadId, parameter),', to: '' },
    ],
  },
  {
    name: 'staged audio is not encrypted',
    scenario: 'plain_calls',
    reports: 'I6',
    replacements: [
      {
        file: 'shared/media/staged-upload.ts',
        from: 'return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])',
        to: 'return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag(), plaintext])',
      },
      {
        file: 'workers/sweepers/reap-uploads.ts',
        from: 'for (const objectKey of objectKeys) await uploads.delete(objectKey)',
        to: '',
      },
      {
        file: 'workers/job/read-staged-audio.ts',
        from: "return { outcome: 'read', audio: decryptUpload(upload, sealed) }",
        to: "return { outcome: 'read', audio: decryptUpload(upload, sealed.subarray(0, 28 + (sealed.length - 28) / 2)) }",
      },
    ],
  },
  {
    name: 'the orphan collector deletes media that results point to',
    scenario: 'plain_calls',
    reports: 'I5',
    replacements: [
      {
        file: 'workers/sweepers/reap-media.ts',
        from: 'deleteOlderThan(prefix, backstopDays * 24 * 3600 * 1000)',
        to: 'deleteOlderThan(prefix, 0)',
      },
      {
        file: 'workers/sweepers/reap-media.ts',
        from: 'const STRAY_INTERVAL_MS = 3600 * 1000',
        to: 'const STRAY_INTERVAL_MS = 0',
      },
    ],
  },
  {
    name: 'what is stored is not what was digested',
    scenario: 'plain_calls',
    reports: 'I2',
    replacements: [
      {
        file: 'workers/job/seal-result.ts',
        from: 'resultDigest: sha256Hex(resultBody)',
        to: 'resultDigest: sha256Hex(JSON.stringify(usage))',
      },
    ],
  },
]
