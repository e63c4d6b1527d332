/** The tables that a history fills, in an order that needs no row twice. */
export const HISTORY_TABLES = [
  'idempotency_keys',
  'jobs',
  'authorizations',
  'upstream_attempts',
  'settlement_batches',
  'settlements',
  'settlement_transactions',
  'receipts',
  'media',
  'uncharged_work',
  'unknown_settlements',
  'resolutions',
  'operator_actions',
] as const

type HistoryTable = (typeof HISTORY_TABLES)[number]

/** Returns the SQL expression of a random-looking UUID, version 4, that follows from a purpose and a call's number. */
export function historyId(purpose: string, number: string): string {
  return `overlay(overlay(md5('${purpose}' || ${number}) PLACING '4' FROM 13) PLACING 'a' FROM 17)::uuid`
}

/** The same digits for the same call and purpose, so that tables refer to each other without a join. */
const uuid = (purpose: string) => historyId(purpose, 'n')
const hex64 = (purpose: string, number = 'n') => `encode(sha256(convert_to('${purpose}' || ${number}, 'UTF8')), 'hex')`

/** Of this many calls in a row, those of one of the three keys are one batch. */
const BATCH_SPAN = 24
/** Calls before this share of the history were made before there was a contract. */
const BEFORE_BATCHES = 0.1
/** Of this many spans, the calls of one are settled one by one, as when they come alone. */
const SPANS_WITH_SINGLE = 12

/** The first number of the span that a call is in. */
const SPAN = `n / ${BATCH_SPAN} * ${BATCH_SPAN}`
/** Spreads how calls end over all of them: every ten thousand in a row have each number from 0 to 9999 once. */
const FATE = 'n % 10000 * 7919 % 10000'
/** The first calls that end in review, with a withheld result, and failed. */
export const [FIRST_IN_REVIEW, FIRST_WITHHELD, FIRST_FAILED] = [6963, 5877, 2350]
/** A chunk of calls ends where a batch does. */
export const CHUNK = 10_000 * BATCH_SPAN

/**
 * One row for each call from `$5` to `$6` of all `$1`: of a million, 965,000 are completed, 30,000 failed, 4,700 withheld
 * after a failed settlement and 300 in review; recent ones of wallets are completed. Every tenth call is of one payer; the
 * others have ever fewer. Most are settled in batches of up to eight: `place` is the account nonce, which the calls of a
 * batch share. `is_whole` tells whose rows have their full size.
 */
const CALLS = `
  CREATE TEMP TABLE history AS
  SELECT n, ${uuid('job')} AS job_id, ${uuid('authorization')} AS authorization_id, ${uuid('settlement')} AS settlement_id,
    CASE WHEN state = 'completed' THEN ${uuid('receipt')} END AS receipt_id,
    'history-' || ${uuid('key')} AS idempotency_key, ${uuid('request')}::text AS request_id,
    place, is_batched, CASE WHEN is_batched THEN ${historyId('batch', 'place')} END AS batch_id,
    '0x' || ${hex64('transaction', 'place')} AS transaction,
    coalesce(wallet, '0x' || right(encode(sha256(convert_to('payer' || payer_number, 'UTF8')), 'hex'), 40)) AS payer,
    '0x' || repeat('fa', 19) || lpad(to_hex(n % 3), 2, '0') AS facilitator,
    ${hex64('request')} AS request_digest, ${hex64('result')} AS result_digest,
    state, accepted_at, accepted_at + make_interval(secs => 1 + n % 29) AS finished_at,
    accepted_at < $10::timestamptz - $9 * interval '1 day' AS is_expired, n > $1 - $7 AS is_whole,
    operation, model, deployment, fallback, terms, usage, minimum + (n % 7) * 1000 AS charge, $4::text AS catalog_version,
    minimum + 9000 AS maximum, 10000000 + place / 4 AS block, '0x' || ${hex64('block', 'place')} AS block_hash
  FROM (SELECT *, ($8::text[])[payer_number + 1] AS wallet,
      CASE WHEN ending = 'completed' OR payer_number < cardinality($8::text[]) AND accepted_at > $10::timestamptz - interval '2 days'
        THEN 'completed' ELSE ending END AS state
    FROM (SELECT n, is_batched, CASE WHEN is_batched THEN ${SPAN} + n % 3 ELSE n END AS place,
      CASE WHEN ${FATE} < 9650 THEN 'completed' WHEN ${FATE} < 9950 THEN 'failed'
        WHEN ${FATE} < 9997 THEN 'settlement_failed' ELSE 'review' END AS ending,
      $10::timestamptz - interval '30 minutes' - ($1 - n) * (make_interval(days => $2) / $1) AS accepted_at,
      CASE WHEN n % 10 = 0 THEN 0
        ELSE 1 + floor(($3 - 1) * power(('x' || left(md5('share' || n), 8))::bit(32)::bigint / 4294967296.0, 3)) END::int
        AS payer_number,
      CASE WHEN n % 20 < 11 THEN 0 WHEN n % 20 < 15 THEN 1 WHEN n % 20 < 18 THEN 2 ELSE 3 END AS kind
    FROM generate_series($5::integer, $6::integer) AS n,
      LATERAL (SELECT ${SPAN} > $1::integer * ${BEFORE_BATCHES} AND n / ${BATCH_SPAN} % ${SPANS_WITH_SINGLE} <> 5 AS is_batched)
        AS settled) AS numbered) AS ended
  JOIN (VALUES
    (0, 'createMessage', 'textmodel-3.5-flash', 'gemini-3.5-flash', 'open-text', 2000,
      '{"input_tokens": 512, "output_tokens": 256, "thinking_tokens": 64}'::jsonb,
      '{"maximum_charge_usd": "0.766952", "minimum_charge_usd": "0.002", "maximum_input_tokens": 2900,
        "maximum_output_tokens": 1600, "input_per_million_tokens_usd": "0.40", "output_per_million_tokens_usd": "2.80"}'::jsonb),
    (1, 'createChatCompletion', 'textmodel-2.5-pro', 'gemini-2.5-pro', 'anthropic', 2000,
      '{"input_tokens": 1024, "output_tokens": 512}'::jsonb,
      '{"maximum_charge_usd": "0.766952", "minimum_charge_usd": "0.002", "maximum_input_tokens": 2900,
        "maximum_output_tokens": 1600, "input_per_million_tokens_usd": "1.40", "output_per_million_tokens_usd": "9.80"}'::jsonb),
    (2, 'createTranscription', 'speechvendor/scribe-v2', 'elevenlabs-transcription', 'open-transcription', 5034,
      '{"input_audio_ms": 25052}'::jsonb,
      '{"maximum_charge_usd": "0.122", "minimum_charge_usd": "0.005034", "price_per_audio_hour_usd": "0.122"}'::jsonb),
    (3, 'createSpeech', 'speechvendor/flash-v2.5', 'elevenlabs-speech', 'open-speech', 2000,
      '{"input_characters": 811}'::jsonb,
      '{"maximum_characters": 811, "maximum_charge_usd": "0.441", "minimum_charge_usd": "0.002",
        "price_per_thousand_characters_usd": "0.2205"}'::jsonb)
  ) AS kinds (kind, operation, model, deployment, fallback, minimum, usage, terms) USING (kind)`

const CONTRACT = `0x${'c0'.repeat(20)}`
/** The call of one payment as hexadecimal digits: 800 bytes, most of them zeros, which compress as the real ones do. */
const PAYMENT_OF_BATCH = `CASE WHEN is_whole THEN request_digest || result_digest || ${hex64('signature')} || repeat('0', 1408) ELSE '00' END`
/** A single payment's transaction, as hexadecimal digits. */
const TRANSACTION = "'0x02f902d3' || repeat(request_digest, CASE WHEN is_whole THEN 20 ELSE 1 END)"
/** What older rows leave out: nothing reads it but the page of one call. */
const TERMS = "CASE WHEN is_whole THEN terms ELSE '{}' END"
const HAS_SETTLEMENT = "state IN ('completed', 'settlement_failed', 'review')"
/** A call in which the first deployment failed without cost, so that another one was called. */
const HAS_FAILOVER = 'n % 20 = 7'

/** Returns the SQL expression of a time as receipts have it. */
const isoTime = (time: string) => `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/**
 * How each table is filled. `calls` takes the parameters number, days, payers, catalog version, first and last number of
 * a chunk, how many of the newest have rows of full size, the addresses of the first payers, for how many days results
 * are kept, and the time of writing.
 */
export const HISTORY_ROWS: Readonly<Record<HistoryTable | 'calls', string>> = {
  calls: CALLS,
  idempotency_keys: `
    INSERT INTO idempotency_keys
      (idempotency_key, request_digest, quoted_maximum, catalog_version, terms, expires_at, job_id)
    SELECT idempotency_key, request_digest, maximum, catalog_version, ${TERMS}, accepted_at + interval '10 minutes', job_id
    FROM history WHERE state <> 'failed' OR n % 2 = 0`,
  jobs: `
    INSERT INTO jobs (id, idempotency_key, released_idempotency_key, operation, public_model, request_digest,
      quoted_maximum, catalog_version, terms, payer, authorization_id, state, fence, run_after, usage, charge_amount,
      result_body, result_digest, result_expired_at, payment_response, receipt_id, failure_code, failure_reason,
      accepted_at, finished_at, is_owed, request_id)
    SELECT job_id, CASE WHEN NOT is_released THEN idempotency_key END, CASE WHEN is_released THEN idempotency_key END,
      operation, model, request_digest, maximum, catalog_version, ${TERMS}, payer, authorization_id, state, 1, accepted_at,
      CASE WHEN has_result THEN usage END, CASE WHEN has_result THEN charge END,
      CASE WHEN has_result AND NOT is_expired THEN json_build_object('id', 'msg_' || job_id, 'model', model, 'text',
        repeat('A generated answer of some length. ', 10))::text END,
      CASE WHEN has_result THEN result_digest END,
      CASE WHEN has_result AND is_expired AND state <> 'review' THEN finished_at + interval '7 days' END,
      CASE WHEN state <> 'completed' THEN NULL WHEN NOT is_whole THEN '{}' ELSE jsonb_build_object('payer', payer, 'amount', charge::text, 'network',
        'eip155:8453', 'success', true, 'transaction', transaction) END,
      receipt_id,
      CASE state WHEN 'failed' THEN (ARRAY['provider_unavailable', 'provider_outcome_unknown', 'provider_empty_output',
        'provider_rejected', 'payment_rejected'])[1 + n % 5] WHEN 'settlement_failed' THEN 'settlement_failed' END,
      CASE state WHEN 'failed' THEN 'the last of the deployments answered 503 (' || deployment || ')'
        WHEN 'settlement_failed' THEN 'the transaction reverted' WHEN 'review' THEN 'not on chain after one day' END,
      accepted_at, finished_at, state = 'settlement_failed' AND NOT is_expired, request_id
    FROM (SELECT *, state = 'failed' AND n % 2 = 1 AS is_released, ${HAS_SETTLEMENT} AS has_result FROM history) AS calls`,
  authorizations: `
    INSERT INTO authorizations
      (id, job_id, network, payer, nonce, authorized_maximum, deadline, signed, claimed_at, challenge_token_sha256)
    SELECT authorization_id, job_id, 'eip155:8453', payer, n * 1000003::numeric, maximum,
      accepted_at + interval '15 minutes',
      jsonb_build_object('payTo', :pay_to, 'facilitator', CASE WHEN is_batched THEN '${CONTRACT}' ELSE facilitator END)
      || CASE WHEN NOT is_whole THEN '{}' ELSE jsonb_build_object('asset', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', 'nonce', (n * 1000003::numeric)::text,
        'payer', payer, 'network', 'eip155:8453', 'spender',
        '0x4020a4f3b7b90cca423b9fabcc0ce57c6c240002', 'deadline', extract(epoch FROM accepted_at)::bigint + 900,
        'signature', '0x' || repeat(request_digest, 2) || '1b', 'validAfter', '0',
        'authorizedMaximum', maximum::text) END,
      accepted_at, result_digest
    FROM history`,
  upstream_attempts: `
    INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, vendor, upstream_model, state, reason, started_at, finished_at)
    SELECT ${uuid('attempt')}, job_id, authorization_id, CASE WHEN ${HAS_FAILOVER} THEN fallback ELSE deployment END, 'vendor', model,
      CASE WHEN state <> 'failed' THEN 'succeeded'
        ELSE (ARRAY['failed_definite', 'failed_ambiguous', 'failed_empty', 'failed_definite'])[1 + n % 4] END,
      CASE WHEN state = 'failed' THEN 'answered 503' END, accepted_at + interval '300 ms',
      accepted_at + make_interval(secs => 0.5 + n % 11)
    FROM history
    UNION ALL
    SELECT ${uuid('first attempt')}, job_id, authorization_id, deployment, 'vendor', model, 'failed_definite', 'answered 429',
      accepted_at + interval '100 ms', accepted_at + interval '200 ms'
    FROM history WHERE ${HAS_FAILOVER}`,
  settlement_batches: `
    INSERT INTO settlement_batches (id, network, facilitator, account_nonce, contract, size, recorded_at)
    SELECT batch_id, 'eip155:8453', facilitator, place, '${CONTRACT}', count(*), min(finished_at) - interval '500 ms'
    FROM history WHERE ${HAS_SETTLEMENT} AND is_batched GROUP BY batch_id, facilitator, place`,
  settlements: `
    INSERT INTO settlements (id, job_id, authorization_id, network, facilitator, account_nonce, charge_amount, state,
      transaction_hash, block_number, block_hash, signed_at, finished_at, finalized_at, failure_reason, payer, gas_used,
      effective_gas_price, gas_cost, batch_id)
    SELECT settlement_id, job_id, authorization_id, 'eip155:8453', facilitator, place, charge, outcome,
      CASE WHEN outcome <> 'unproven' THEN transaction END, CASE WHEN outcome <> 'unproven' THEN block END,
      CASE WHEN outcome <> 'unproven' THEN block_hash END, finished_at - interval '500 ms', finished_at,
      CASE WHEN outcome IN ('confirmed', 'reverted') THEN finished_at + interval '15 minutes' END,
      CASE outcome WHEN 'lost' THEN 'a reorganization removed it' WHEN 'unproven' THEN 'not on chain after one day' END,
      payer, CASE WHEN is_batched THEN 92000 ELSE 138568 END, 10000000, CASE WHEN is_batched THEN 4 ELSE 6 END, batch_id
    FROM (SELECT *, CASE WHEN n % 10000 = 42 THEN 'lost' WHEN state = 'completed' THEN 'confirmed'
        WHEN state = 'settlement_failed' THEN 'reverted' ELSE 'unproven' END AS outcome FROM history WHERE ${HAS_SETTLEMENT}) AS settled`,
  settlement_transactions: `
    INSERT INTO settlement_transactions
      (hash, settlement_id, batch_id, raw_transaction, signed_at, network, facilitator, account_nonce)
    SELECT transaction, settlement_id, NULL::uuid, ${TRANSACTION}, finished_at - interval '500 ms',
      'eip155:8453', facilitator, place
    FROM history WHERE ${HAS_SETTLEMENT} AND NOT is_batched
    UNION ALL
    SELECT '0x' || ${hex64('replaced')}, settlement_id, NULL, ${TRANSACTION},
      finished_at - interval '700 ms', 'eip155:8453', facilitator, place
    FROM history WHERE ${HAS_SETTLEMENT} AND NOT is_batched AND n % 50 = 3
    UNION ALL
    SELECT transaction, NULL, batch_id, '0x02f9' || string_agg(${PAYMENT_OF_BATCH}, ''), min(finished_at) - interval '500 ms',
      'eip155:8453', facilitator, place
    FROM history WHERE ${HAS_SETTLEMENT} AND is_batched GROUP BY transaction, batch_id, facilitator, place
    UNION ALL
    SELECT '0x' || ${hex64('replaced', 'place')}, NULL, batch_id, '0x02f9' || string_agg(${PAYMENT_OF_BATCH}, ''),
      min(finished_at) - interval '700 ms', 'eip155:8453', facilitator, place
    FROM history WHERE ${HAS_SETTLEMENT} AND is_batched AND place / ${BATCH_SPAN} % 50 = 3
    GROUP BY batch_id, facilitator, place`,
  receipts: `
    INSERT INTO receipts (id, job_id, token_secret_id, body)
    SELECT receipt_id, job_id, 'k1', jsonb_build_object('charge_atomic', charge::text, 'transaction', transaction,
        'settled_at', finished_text, 'issued_at', finished_text)
      || CASE WHEN NOT is_whole THEN '{}' ELSE jsonb_build_object('id', receipt_id, 'object', 'receipt',
      'operation', operation, 'model', model, 'payer', payer, 'pay_to', :pay_to, 'network', 'eip155:8453',
      'currency', 'USDC', 'asset', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', 'usage', usage, 'unit_prices', terms,
      'price_version', 'price-' || left(request_digest, 16), 'catalog_version', catalog_version,
      'charge_usdc', trim_scale(charge / 1000000.0)::text, 'quoted_maximum_atomic', maximum::text,
      'authorized_maximum_atomic', maximum::text, 'request_digest', request_digest, 'result_digest', result_digest,
      'block_number', block::text, 'accepted_at', ${isoTime('accepted_at')},
      'calculation', jsonb_build_object('applied', 'none', 'rounding', 'up, once, to 0.000001 USDC',
        'sum_usd', trim_scale(charge / 1000000.0)::text, 'rounded_atomic', charge::text, 'charge_atomic', charge::text,
        'minimum_atomic', '2000', 'maximum_atomic', maximum::text, 'lines', jsonb_build_array(jsonb_build_object(
          'usage', 'units', 'measured', charge, 'at_most', maximum, 'quantity', charge::text, 'unit', 'unit',
          'unit_price_usd', '1', 'per_units', '1000000', 'product_usd', trim_scale(charge / 1000000.0)::text)))) END
    FROM (SELECT *, ${isoTime('finished_at')} AS finished_text FROM history WHERE receipt_id IS NOT NULL) AS completed`,
  media: `
    INSERT INTO media
      (id, job_id, token_sha256, object_key, content_type, sha256, bytes, expires_at, object_deleted_at)
    SELECT ${uuid('media')}, job_id, ${hex64('token')}, 'media/speech/' || ${uuid('object')}, 'audio/mpeg', result_digest,
      12256, finished_at + interval '1 day',
      CASE WHEN finished_at < now() - interval '1 day' THEN finished_at + interval '1 day' END
    FROM history WHERE operation = 'createSpeech' AND state = 'completed'`,
  uncharged_work: `
    INSERT INTO uncharged_work
      (job_id, authorization_id, network, payer, kind, amount, deployment, is_new_payer, created_at)
    SELECT job_id, authorization_id, 'eip155:8453', payer,
      (ARRAY['empty_output', 'unknown_outcome', 'lost_call', 'rejected_request'])[1 + n % 4], maximum, deployment,
      n % 3 = 0, finished_at
    FROM history WHERE state = 'failed'`,
  unknown_settlements: `
    INSERT INTO unknown_settlements (network, payer, nonce, pay_to, authorized_maximum, transaction_hash, block_number,
      amount, idempotency_key, request_id, found_at, resolved_at)
    SELECT 'eip155:8453', payer, n * 1000003::numeric + 1, :pay_to, maximum, '0x' || ${hex64('unknown')}, block, charge,
      'lost-' || ${uuid('lost key')}, ${uuid('lost request')}, finished_at,
      CASE WHEN n % 3 = 0 THEN finished_at + interval '1 day' END
    FROM history WHERE n % 5000 = 123`,
  resolutions: `
    INSERT INTO resolutions (item, job_id, settlement_id, payer, outcome, amount, reason, operator, resolved_at)
    SELECT CASE state WHEN 'review' THEN 'review' ELSE 'debt' END, job_id, settlement_id, payer, 'paid_outside', charge,
      'Paid by bank transfer', 'operator', finished_at + interval '3 days'
    FROM history WHERE state IN ('review', 'settlement_failed') AND n % 3 = 0 AND accepted_at < now() - interval '7 days'`,
  // The only one whose trigger runs: each row has the hash of the one before.
  operator_actions: `
    SET session_replication_role = DEFAULT;
    INSERT INTO operator_actions (done_at, operator, source, action, subject, reason, details)
    SELECT accepted_at, 'operator', (ARRAY['console', 'command'])[1 + n % 2],
      (ARRAY['deployment.drain', 'deployment.enable', 'item.resolve', 'operator.sign_in'])[1 + n % 4],
      CASE WHEN n % 4 = 2 THEN job_id::text ELSE deployment END, 'Maintenance of the vendor', '{}'
    FROM history WHERE n % 200 = 17;
    SET session_replication_role = replica`,
}
