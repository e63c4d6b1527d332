import type { Violation } from '../checker/ledgers.ts'
import {
  appendElement,
  dropAlternative,
  insertAfter,
  moveBefore,
  removeCondition,
  removeIf,
  removeStatement,
  replaceArgument,
  replaceCall,
  replaceSql,
  returnInstead,
  type SyntaxChange,
  setValue,
} from './change-syntax.ts'
import type { ScenarioName } from './scenarios.ts'

/** The removal of one safeguard, together with further safeguards that would hide its absence. */
export interface Mutation {
  readonly name: string
  readonly scenario: ScenarioName
  /** The invariant whose violation the checker must report, possibly among others. */
  readonly reports: Violation['invariant']
  readonly changes?: readonly SyntaxChange[]
  /** SQL to run after the migrations. */
  readonly statements?: readonly string[]
}

const LEDGER = 'shared/ledger'
const LOST_ATTEMPT_IS_REPEATED: SyntaxChange = {
  file: 'workers/job/run-job.ts',
  within: 'runStep',
  change: replaceCall('failLostAttempt', 'callProvider(dependencies, job, context.signal)'),
}

/** Sends what was just signed. */
const SEND = `await fetch(String(process.env['RPC_URL']), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_sendRawTransaction', params: [transaction.raw] }),
  })`

export const mutations: readonly Mutation[] = [
  {
    name: 'a payment nonce can be claimed twice (one_claim_per_nonce)',
    scenario: 'one_payment_two_keys',
    reports: 'I1',
    statements: ['ALTER TABLE authorizations DROP CONSTRAINT one_claim_per_nonce'],
  },
  {
    name: 'duplicates lock neither the key nor the payer, and a key may have two jobs',
    scenario: 'simultaneous_duplicates',
    reports: 'I1',
    statements: ['ALTER TABLE jobs DROP CONSTRAINT jobs_idempotency_key_key'],
    changes: [
      { file: `${LEDGER}/acceptance/claim-nonces.ts`, within: 'LOCK_KEYS', change: setValue("{ skip: '', wait: '' }") },
      // The payer's lock alone would keep them apart: the later duplicate reads again and finds the job.
      { file: `${LEDGER}/acceptance/claim-nonces.ts`, within: 'PAYER', change: setValue("'pg_backend_pid()'") },
    ],
  },
  {
    name: 'a lost attempt is repeated (one_call_per_authorization prevents the call)',
    scenario: 'lost_worker',
    reports: 'liveness',
    changes: [LOST_ATTEMPT_IS_REPEATED],
  },
  {
    name: 'a lost attempt is repeated, and one_call_per_authorization is missing',
    scenario: 'lost_worker',
    reports: 'I3',
    statements: ['DROP INDEX one_call_per_authorization'],
    changes: [LOST_ATTEMPT_IS_REPEATED],
  },
  {
    name: 'an attempt is recorded after its provider call',
    scenario: 'lost_worker',
    reports: 'I3',
    changes: [
      {
        file: 'workers/job/call-provider.ts',
        within: 'tryDeployments',
        change: moveBefore('startAttempt', 'call', 'outcome'),
      },
    ],
  },
  {
    name: 'a transition is not fenced',
    scenario: 'paused_worker',
    reports: 'I3',
    changes: [
      {
        file: `${LEDGER}/move-job.ts`,
        within: 'moveJobs',
        change: replaceSql('jobs.fence = mine.fence', 'jobs.fence >= mine.fence'),
      },
    ],
  },
  {
    name: 'a result is released while its settlement is pending',
    scenario: 'no_blocks',
    reports: 'I4',
    changes: [
      {
        file: 'shared/chain/settlement/confirm-transaction.ts',
        within: 'outcomeOf',
        change: returnInstead(`{ outcome: 'confirmed', blockNumber: 1n, blockTimestamp: new Date() }`, 'NOT_MINED'),
      },
    ],
  },
  {
    name: 'a settlement is sent before it is stored',
    scenario: 'ledger_fails_while_signing_directly',
    reports: 'I1',
    changes: [
      {
        file: `${LEDGER}/settlement/record-settlement.ts`,
        within: 'signNext',
        change: insertAfter('sign', SEND),
      },
    ],
  },
  {
    name: 'a batch is sent before it is stored',
    scenario: 'ledger_fails_while_signing',
    reports: 'I1',
    changes: [
      {
        file: `${LEDGER}/settlement/settlement-batches.ts`,
        within: 'signBatch',
        change: insertAfter('sign', SEND),
      },
    ],
  },
  {
    name: 'a transfer of a batch proves a payment without the contract’s event for it',
    scenario: 'batch_fails_in_part',
    reports: 'I4',
    changes: [
      {
        file: 'shared/chain/settlement/batch-reading.ts',
        within: 'createBatchReading',
        change: replaceCall(
          'transferOf',
          `paymentsOfReceipt(receipt).flatMap(({ transfers }) => transfers)
            .find((transfer) => isTransferOf(transfer, authorization))`,
        ),
      },
    ],
  },
  {
    name: 'the gas of a batch is attributed to each of its payments',
    scenario: 'batch_fails_in_part',
    reports: 'gas',
    changes: [
      {
        file: 'shared/chain/settlement-contract/share-of-gas.ts',
        within: 'shareOfGas',
        change: removeIf('isIncluded', 'position'),
      },
    ],
  },
  {
    name: 'a batch that reverts as a whole counts as the failure of each of its payments',
    scenario: 'batch_reverts',
    reports: 'blame',
    changes: [
      {
        file: 'workers/settlement/own-keys/judge-settlement.ts',
        within: 'findReverts',
        change: removeCondition('confirmation', 'push'),
      },
    ],
  },
  {
    name: 'a payment that is signed again forgets the batch that it leaves',
    scenario: 'old_batch_is_mined_after_all',
    reports: 'I1',
    changes: [
      {
        file: `${LEDGER}/settlement/renew-batch.ts`,
        within: 'renew_settlement_batch',
        change: replaceSql(' earlier_batches = array_append(earlier_batches, batch_id),', ''),
      },
    ],
  },
  {
    name: 'a removed settlement is lost for what was read before another worker signed it again',
    scenario: 'removed_settlement_read_before',
    reports: 'I1',
    changes: [
      {
        file: 'workers/settlement/own-keys/watch-finality.ts',
        within: 'recheckSettlement',
        change: replaceArgument('loseSettlement', 2, 'undefined'),
      },
    ],
  },
  {
    name: 'account nonces are not rolled back with the transaction that took them',
    scenario: 'ledger_fails_while_signing',
    reports: 'nonce-gap',
    statements: [
      'CREATE SEQUENCE taken_nonces MINVALUE 0 START 0',
      `CREATE FUNCTION take_permanently() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN NEW.next_account_nonce := nextval('taken_nonces') + 1; RETURN NEW; END $$`,
      `CREATE TRIGGER nonces_without_rollback BEFORE INSERT OR UPDATE ON settlement_accounts
        FOR EACH ROW EXECUTE FUNCTION take_permanently()`,
    ],
  },
  {
    name: 'a replay does not check who paid',
    scenario: 'stranger',
    reports: 'I4',
    changes: [
      {
        file: 'api/paid-request/accept/serve-payment.ts',
        within: 'findOwnJob',
        change: removeIf('idempotency_key_reused'),
      },
    ],
  },
  {
    name: 'the payment is not checked again before the provider call',
    scenario: 'funds_moved',
    reports: 'I3',
    changes: [
      {
        file: 'workers/job/check-payment-again.ts',
        within: 'checkPaymentAgain',
        change: removeIf('verification', 'refused'),
      },
    ],
  },
  {
    name: 'an ambiguous failure leads to the next deployment',
    scenario: 'ambiguous_failure',
    reports: 'I3',
    changes: [
      {
        file: 'workers/job/failover.ts',
        within: 'createFailover',
        change: removeIf('failure', 'certainty', 'definite'),
      },
      // Its code alone would end the job.
      {
        file: 'workers/job/failover.ts',
        within: 'createFailover',
        change: removeIf('failure', 'rejectedBy', 'deployment'),
      },
    ],
  },
  {
    name: 'the signature of a failed attempt pays again, and one_claim_per_nonce is missing',
    scenario: 'ambiguous_failure',
    reports: 'I1',
    statements: ['ALTER TABLE authorizations DROP CONSTRAINT one_claim_per_nonce'],
    changes: [
      {
        file: 'api/paid-request/accept/serve-payment.ts',
        within: 'findOwnJob',
        change: dropAlternative('claim'),
      },
    ],
  },
  {
    name: 'sealing a result does not erase the key of its upload',
    scenario: 'plain_calls',
    reports: 'I6',
    changes: [
      {
        file: `${LEDGER}/execution/execution-store.ts`,
        within: 'SEAL_RESULTS',
        change: replaceSql('staged_uploads.id = moved.upload_id', 'false'),
      },
    ],
  },
  {
    name: 'staged audio is not encrypted',
    scenario: 'plain_calls',
    reports: 'I6',
    changes: [
      { file: 'shared/media/staged-upload.ts', within: 'encryptUpload', change: appendElement('concat', 'plaintext') },
      { file: 'workers/sweepers/retention.ts', within: 'deleteEach', change: removeStatement('delete') },
      {
        file: 'workers/job/read-staged-audio.ts',
        within: 'readStagedAudio',
        change: replaceArgument(
          'decryptUpload',
          1,
          '(await uploads.open(upload.objectKey, [0, 27 + (opened.bytes - 28) / 2])) ?? opened',
        ),
      },
    ],
  },
  {
    name: 'the stray sweeper deletes media that results reference',
    scenario: 'plain_calls',
    reports: 'I5',
    changes: [
      {
        file: 'workers/sweepers/retention.ts',
        within: 'reapStrayMedia',
        change: replaceArgument('deleteOlderThan', 1, '0'),
      },
      { file: 'workers/sweepers/retention.ts', within: 'STRAY_MEDIA_INTERVAL_MS', change: setValue('0') },
    ],
  },
  {
    name: 'the stored result is not the digested one',
    scenario: 'plain_calls',
    reports: 'I2',
    changes: [
      {
        file: 'workers/job/seal-result.ts',
        within: 'sealProduct',
        change: replaceArgument('sha256Hex', 0, 'JSON.stringify(usage)'),
      },
    ],
  },
]
