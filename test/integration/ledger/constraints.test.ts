import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobState } from '#shared/jobs/job.ts'
import { claimTestJob, fencedWrites, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob, paidAgain } from '../../support/ledger/new-test-job.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

/** The schema's constraints, which protect the ledger even from a faulty program. Every statement here is plain SQL. */

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger(4)
})
afterAll(() => ledger.close())

const COLUMNS_OF_SETTLEMENT =
  'id, job_id, authorization_id, network, payer, facilitator, account_nonce, charge_amount, state'

/** Runs statements in one transaction, including deferred checks. Returns the violated constraint's name. */
async function violation(...statements: readonly (readonly [string, readonly unknown[]])[]): Promise<string> {
  const client = await ledger.pool.connect()
  try {
    await client.query('BEGIN')
    for (const [statement, parameters] of statements) await client.query(statement, [...parameters])
    await client.query('SET CONSTRAINTS ALL IMMEDIATE')
    return 'none'
  } catch (error) {
    const { constraint, message } = error as pg.DatabaseError
    return constraint ?? message
  } finally {
    await client.query('ROLLBACK')
    client.release()
  }
}

const RELEASED_KEY = 'idempotency_key = NULL, released_idempotency_key = idempotency_key'

const updates: readonly (readonly [string, JobState, string, string])[] = [
  ['a job in an unknown state', 'accepted', "state = 'paused'", 'jobs_state_check'],
  ['a completed job without a receipt', 'settling', "state = 'completed'", 'completed_has_receipt'],
  ['a completed job that loses its payment', 'completed', 'payment_response = NULL', 'completed_has_receipt'],
  ['a completed job that loses its result', 'completed', 'result_body = NULL', 'charge_has_result'],
  ['a generated job without a result', 'generating', "state = 'generated'", 'charge_has_result'],
  ['a generated job without a charge', 'generated', 'charge_amount = NULL', 'charge_has_result'],
  ['a generated job without usage', 'generated', 'usage = NULL', 'charge_has_result'],
  ['a charge above the quote', 'generated', 'charge_amount = quoted_maximum + 1', 'charge_within_quote'],
  ['a quote that falls below the charge', 'generated', 'quoted_maximum = charge_amount - 1', 'charge_within_quote'],
  ['a charge below zero', 'generated', 'charge_amount = -1', 'jobs_charge_amount_check'],
  ['a quote below zero', 'accepted', 'quoted_maximum = -1', 'jobs_quoted_maximum_check'],
  ['a failed job without a code', 'generating', "state = 'failed'", 'failure_has_code'],
  ['a failure code on an unfinished job', 'generating', "failure_code = 'internal_error'", 'failure_has_code'],
  ['a receipt that does not exist', 'completed', 'receipt_id = gen_random_uuid()', 'jobs_receipt'],
  ['an authorization that does not exist', 'accepted', 'authorization_id = gen_random_uuid()', 'jobs_authorization'],
  ['a completed job without its key', 'completed', RELEASED_KEY, 'only_failed_jobs_release_their_key'],
  ['an unfinished job without its key', 'accepted', RELEASED_KEY, 'only_failed_jobs_release_their_key'],
  ['a failed job that loses its key', 'failed', 'idempotency_key = NULL', 'key_is_held_or_released'],
  ['a deferral without its beginning', 'accepted', 'deferrals = 1', 'deferrals_have_begun'],
  ['a deferral that is not counted', 'accepted', 'deferred_since = now()', 'deferrals_have_begun'],
  [
    'a blocked payment of a job that is not deferred',
    'generated',
    'payment_blocked_since = now()',
    'only_deferred_payments_are_blocked',
  ],
  ['a malformed request digest', 'accepted', "request_digest = 'short'", 'jobs_request_digest_check'],
]

describe('the schema', () => {
  it.each(updates)('rejects %s', async (_, state, change, constraint) => {
    const { id } = await jobInState(ledger, state)
    expect(await violation([`UPDATE jobs SET ${change} WHERE id = $1`, [id]])).toBe(constraint)
  })

  it.each(['open', 'succeeded', 'failed_ambiguous'])(
    'rejects a second attempt for an authorization whose first one is %s',
    async (state) => {
      const job = await jobInState(ledger, 'generating')
      const finished = state === 'open' ? 'NULL' : 'now()'
      expect(
        await violation(
          [`UPDATE upstream_attempts SET state = $2, finished_at = ${finished} WHERE job_id = $1`, [job.id, state]],
          [
            `INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, vendor, upstream_model, state)
             VALUES (gen_random_uuid(), $1, $2, 'elevenlabs', 'elevenlabs', 'scribe_v2', 'open')`,
            [job.id, job.authorizationId],
          ],
        ),
      ).toBe('one_call_per_authorization')
    },
  )

  it('accepts a second attempt after a definite failure', async () => {
    const job = await jobInState(ledger, 'generating')
    expect(
      await violation(
        ["UPDATE upstream_attempts SET state = 'failed_definite', finished_at = now() WHERE job_id = $1", [job.id]],
        [
          `INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, vendor, upstream_model, state)
           VALUES (gen_random_uuid(), $1, $2, 'elevenlabs', 'elevenlabs', 'scribe_v2', 'open')`,
          [job.id, job.authorizationId],
        ],
      ),
    ).toBe('none')
  })

  it('rejects an attempt that is both finished and open', async () => {
    const { id } = await jobInState(ledger, 'generating')
    expect(await violation(['UPDATE upstream_attempts SET finished_at = now() WHERE job_id = $1', [id]])).toBe(
      'finished_unless_open',
    )
  })

  it('rejects a payment nonce for two jobs', async () => {
    const [first, second] = [await jobInState(ledger, 'accepted'), await jobInState(ledger, 'accepted')]
    const { network, payer, nonce } = first.authorization
    expect(
      await violation([
        `INSERT INTO authorizations (id, job_id, network, payer, nonce, authorized_maximum, deadline, signed, challenge_token_sha256)
         VALUES ($1, $2, $3, $4, $5, 1, now(), '{}', repeat('0', 64))`,
        [randomUUID(), second.id, network, payer, nonce.toString()],
      ]),
    ).toBe('one_claim_per_nonce')
  })

  it('rejects two jobs under one key', async () => {
    const [first, second] = [await jobInState(ledger, 'accepted'), await jobInState(ledger, 'accepted')]
    expect(
      await violation([
        'UPDATE jobs SET idempotency_key = (SELECT idempotency_key FROM jobs WHERE id = $1) WHERE id = $2',
        [first.id, second.id],
      ]),
    ).toBe('jobs_idempotency_key_key')
  })

  it.each(['signed', 'confirmed', 'unproven'])(
    'rejects a second charge of a job whose first one is %s',
    async (state) => {
      const job = newTestJob()
      const settling = await jobInState(ledger, 'settling', job)
      const fresh = testAuthorization({ payer: job.authorization.payer })
      const authorizationId = randomUUID()
      expect(
        await violation(
          [
            `UPDATE settlements SET state = $2, transaction_hash = 'h', block_number = 1, finished_at = now()
           WHERE job_id = $1`,
            [settling.id, state],
          ],
          [
            `INSERT INTO authorizations (id, job_id, network, payer, nonce, authorized_maximum, deadline, signed, challenge_token_sha256)
           VALUES ($1, $2, $3, $4, $5, 1, now(), '{}', repeat('0', 64))`,
            [authorizationId, settling.id, fresh.network, fresh.payer, fresh.nonce.toString()],
          ],
          [
            `INSERT INTO settlements (${COLUMNS_OF_SETTLEMENT})
           VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, 999999, 1, 'signed')`,
            [settling.id, authorizationId, fresh.network, fresh.payer, fresh.facilitator],
          ],
        ),
      ).toBe('one_charge_per_job')
    },
  )

  it('rejects a second settlement of one authorization, even after a revert', async () => {
    const job = await jobInState(ledger, 'settlement_failed')
    const { network, payer, facilitator } = job.authorization
    expect(
      await violation([
        `INSERT INTO settlements (${COLUMNS_OF_SETTLEMENT})
         VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, 999999, 1, 'signed')`,
        [job.id, job.authorizationId, network, payer, facilitator],
      ]),
    ).toBe('settlements_authorization_id_key')
  })

  it('rejects one account nonce for two settlements', async () => {
    const [first, second] = [await jobInState(ledger, 'settling'), await jobInState(ledger, 'settling')]
    expect(
      await violation([
        `UPDATE settlements SET account_nonce = (SELECT account_nonce FROM settlements WHERE job_id = $1)
         WHERE job_id = $2`,
        [first.id, second.id],
      ]),
    ).toBe('one_transaction_per_account_nonce')
  })

  it('rejects a confirmed settlement without transaction or block', async () => {
    const { id } = await jobInState(ledger, 'settling')
    expect(
      await violation(["UPDATE settlements SET state = 'confirmed', finished_at = now() WHERE job_id = $1", [id]]),
    ).toBe('confirmed_is_on_chain')
  })

  it('rejects a reverted settlement that is open again beside another charge of its job', async () => {
    const job = newTestJob()
    const { id } = await jobInState(ledger, 'settlement_failed', job)
    await ledger.acceptance.acceptPayment(paidAgain(job))
    await fencedWrites.recordSettlement.run(ledger, await claimTestJob(ledger, id))
    expect(
      await violation(["UPDATE settlements SET state = 'signed' WHERE job_id = $1 AND state = 'reverted'", [id]]),
    ).toBe('one_charge_per_job')
  })

  it('rejects a surplus settlement without transaction or reason', async () => {
    const { id } = await jobInState(ledger, 'settlement_failed')
    const surplus = "UPDATE settlements SET state = 'surplus', transaction_hash = 'h', block_number = 1"
    expect(await violation([`${surplus} WHERE job_id = $1`, [id]])).toBe('lost_has_reason')
    expect(
      await violation([`UPDATE settlements SET state = 'surplus', failure_reason = 'test' WHERE job_id = $1`, [id]]),
    ).toBe('surplus_is_on_chain')
  })

  it('rejects an erased upload that still has its data key', async () => {
    const { id } = await jobInState(ledger, 'accepted')
    expect(await violation(['UPDATE staged_uploads SET erased_at = now() WHERE job_id = $1', [id]])).toBe(
      'erased_has_no_key',
    )
  })

  it.each([
    ['to change', "UPDATE receipts SET body = '{}' WHERE job_id = $1"],
    ['to delete', 'DELETE FROM receipts WHERE job_id = $1'],
  ])('refuses %s a receipt', async (_, statement) => {
    const { id } = await jobInState(ledger, 'completed')
    expect(await violation([statement, [id]])).toBe('receipts are immutable')
  })

  it('rejects a second receipt of one job [spec R23, O7]', async () => {
    const { id } = await jobInState(ledger, 'completed')
    expect(
      await violation([
        `INSERT INTO receipts (id, job_id, token_secret_id, body) VALUES (gen_random_uuid(), $1, 'first', '{}')`,
        [id],
      ]),
    ).toBe('receipts_job_id_key')
  })
})

describe('the batches of settlements', () => {
  const settlementOf = 'WHERE id = (SELECT id FROM settlements WHERE batch_id = $1 LIMIT 1)'
  const transactionOf = 'WHERE batch_id = $1'
  it.each([
    [
      'a settlement at another account nonce',
      `UPDATE settlements SET account_nonce = 999999 ${settlementOf}`,
      'settlement_of_batch',
    ],
    [
      'a settlement of another key',
      `UPDATE settlements SET facilitator = '0x01' ${settlementOf}`,
      'settlement_of_batch',
    ],
    [
      'a settlement that shares their account nonce and is not of them, twice',
      'UPDATE settlements SET batch_id = NULL WHERE batch_id = $1',
      'one_transaction_per_account_nonce',
    ],
    [
      'a settlement of a remote facilitator',
      `UPDATE settlements SET settled_by = 'remote_facilitator', account_nonce = NULL, recorded_block = 1 ${settlementOf}`,
      'only_own_keys_send_batches',
    ],
    [
      'a settlement that left itself',
      `UPDATE settlements SET earlier_batches = ARRAY[batch_id] ${settlementOf}`,
      'earlier_batches_were_left',
    ],
    [
      'a settlement that left without a new batch',
      `UPDATE settlements SET earlier_batches = ARRAY[batch_id], batch_id = NULL ${settlementOf}`,
      'earlier_batches_were_left',
    ],
    [
      'a transaction at another account nonce',
      `UPDATE settlement_transactions SET account_nonce = 999999 ${transactionOf}`,
      'transaction_of_batch',
    ],
    [
      'a transaction of a settlement alone',
      `UPDATE settlement_transactions SET settlement_id = (SELECT id FROM settlements WHERE batch_id = $1 LIMIT 1)
       ${transactionOf}`,
      'transaction_of_one_kind',
    ],
    [
      'two of one account nonce',
      `INSERT INTO settlement_batches (id, network, facilitator, account_nonce, contract, size)
       SELECT gen_random_uuid(), network, facilitator, account_nonce, contract, size FROM settlement_batches WHERE id = $1`,
      'one_batch_per_account_nonce',
    ],
    ['no settlement', 'UPDATE settlement_batches SET size = 0 WHERE id = $1', 'settlement_batches_size_check'],
  ])('never have %s', async (_, statement, constraint) => {
    const [one] = await settlingBatch(ledger, 2)
    expect(await violation([statement, [one?.settlement.batch?.id]])).toBe(constraint)
  })
})

describe('the verdicts on audio', () => {
  it.each([
    ['a digest of another length', ['00', 'aa'.repeat(32), 1, null], 'audio_inspections_audio_sha256_check'],
    ['an inspector of another length', ['00'.repeat(32), 'aa', 1, null], 'audio_inspections_inspector_check'],
    ['no duration', ['00'.repeat(32), 'aa'.repeat(32), 0, null], 'audio_inspections_duration_ms_check'],
    ['a long message', ['00'.repeat(32), 'aa'.repeat(32), 1, 'x'.repeat(1001)], 'audio_inspections_refusal_check'],
  ] as const)('refuse %s', async (_, values, constraint) => {
    const insert = `INSERT INTO audio_inspections (audio_sha256, inspector, duration_ms, refusal, expires_at)
      VALUES (decode($1, 'hex'), decode($2, 'hex'), $3, $4, now())`
    expect(await violation([insert, values])).toBe(constraint)
  })
})

describe('the operators of the console', () => {
  const account = `INSERT INTO operators (name, role, password_hash) VALUES ($1, $2, 'hash')`
  const session = `INSERT INTO operator_sessions (token_sha256, operator, expires_at) VALUES ($1, $2, now())`
  const action = `INSERT INTO operator_actions (operator, source, action, subject) VALUES ('a', $1, 'b', 'c')`
  const control = `INSERT INTO controls (kind, subject, is_stopped, operator, stopped_until, weight, reason)
    VALUES ($1, $2, true, 'a', $3, $4, $5)`
  const hour = "INSERT INTO ledger_hours VALUES ($1, 0, 0, 0, 0, 0, 0, 0, '[]')"
  it.each([
    ['a name that a link or a command would have to quote', account, ['a b', 'read'], 'operators_name_check'],
    ['a role of their own', account, ['a', 'admin'], 'operators_role_check'],
    ['a session with its token', session, ['token', 'a'], 'operator_sessions_token_sha256_check'],
    ['a session without an account', session, ['a'.repeat(64), 'a'], 'operator_sessions_operator_fkey'],
    ['an action from elsewhere', action, ['sql'], 'operator_actions_source_check'],
    ['a control of something else', control, ['model', 'm', null, null, 'why'], 'controls_kind_check'],
    ['a control without a reason', control, ['queue', 'text', null, null, ''], 'controls_reason_check'],
    ['a blocked payer without an address', control, ['payer', '0xAb', null, null, 'why'], 'payer_is_an_address'],
    ['a queue with a weight', control, ['queue', 'text', null, 1, 'why'], 'only_deployments_have_a_weight'],
    ['a weight of zero', control, ['deployment', 'd', null, 0, 'why'], 'controls_weight_check'],
    [
      'a deployment drained until a time',
      control,
      ['deployment', 'd', '2026-03-01T10:30:00Z', null, 'why'],
      'only_payers_are_stopped_until',
    ],
    ['totals of a part of an hour', hour, ['2026-03-01T10:30:00Z'], 'ledger_hours_hour_check'],
  ] as const)('never have %s', async (_, insert, values, constraint) => {
    expect(await violation([insert, values])).toBe(constraint)
  })
})
