import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { ERROR_CODES, type ErrorCode } from '#shared/errors/error-codes.ts'
import {
  type CustomPayment,
  challengeOf,
  paymentHeader,
  signCustomPayment,
} from '../../support/payer/custom-payment.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { startStandaloneSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../../support/processes/test-sandbox.ts'
import { type PaymentMutation, paymentMutation } from './payment-mutations.ts'

const PATH = '/v1/chat/completions'
const BODY = { model: 'textmodel-3.5-flash', max_tokens: 16, messages: [{ role: 'user', content: 'Good evening.' }] }
const TAKEN_STATUSES = [400, 402, 409, 412]

/** Concurrent mutations. */
const AT_ONCE = { minLength: 10, maxLength: 10 }

/** Number of answers by status and code, such as `402 payment_signature_invalid`. */
export type FuzzTally = Record<string, number>

/**
 * Sends `runs` mutations (rounded up to tens) of a valid payment to a separate sandbox. Throws, with the seed and the
 * smallest failing mutation, when an answer is not a documented rejection. The payer has no USDC, so that even an
 * unchanged payment buys nothing. At the end no job, claim or upstream call may exist, and the API must be the same
 * process without an unexpected failure.
 */
export async function fuzzPayments({ runs, seed }: { runs: number; seed: number }): Promise<FuzzTally> {
  const sandbox = await startStandaloneSandbox({
    // A node that verifies ten payments concurrently answers late, and a timeout would not be a documented rejection.
    apiEnvironment: { ...WITHOUT_BUDGETS, RPC_TIMEOUT_MS: '60000' },
  })
  try {
    const pid = sandbox.pidOf('api')
    const tally: FuzzTally = {}
    const send = await preparedSender(sandbox)
    const sendOne = async (mutation: PaymentMutation) => {
      const { status, code } = await readRefusal(await send(mutation))
      if (mutation.kind === 'unstorable' && code !== 'invalid_payment_header')
        throw new Error(`a payment with text that cannot be stored was answered with ${status} ${code}`)
      const answer = `${status} ${code}`
      tally[answer] = (tally[answer] ?? 0) + 1
    }
    const property = fc.asyncProperty(fc.array(paymentMutation, AT_ONCE), async (mutations) => {
      await Promise.all(mutations.map((mutation) => sendOne(mutation)))
    })
    await fc.assert(property, { numRuns: Math.ceil(runs / AT_ONCE.maxLength), seed })
    await requireNoTrace(sandbox, pid)
    return tally
  } finally {
    await sandbox.stop()
  }
}

async function preparedSender(sandbox: TestSandbox): Promise<(mutation: PaymentMutation) => Promise<Response>> {
  const idempotencyKey = randomUUID()
  const required = challengeOf(await sandbox.post(PATH, BODY, { idempotencyKey }))
  const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 0n })
  // A new signature for each request: a refused payment is answered from memory for a while.
  const newPayment = (): Promise<CustomPayment> => signCustomPayment(required, payer, { permit: {} })
  return async (mutation) => {
    const headers: Record<string, string> =
      mutation.kind !== 'signed'
        ? { 'payment-signature': mutation.mutate(await newPayment()) }
        : paymentHeader(
            await signCustomPayment(required, payer, {
              terms: mutation.terms,
              ...(mutation.withPermit ? { permit: {} } : {}),
            }),
          )
    return await sandbox.post(PATH, BODY, { idempotencyKey, headers })
  }
}

async function readRefusal(answer: Response): Promise<{ status: number; code: ErrorCode }> {
  const text = await answer.text()
  const body = JSON.parse(text) as { code?: string; error: string | { code: string } }
  const code = (typeof body.error === 'string' ? body.code : body.error.code) as ErrorCode
  const entry = ERROR_CODES[code]
  if (!TAKEN_STATUSES.includes(answer.status) || entry?.status !== answer.status || entry.payment !== 'none')
    throw new Error(`${answer.status} is not a documented rejection: ${text}`)
  return { status: answer.status, code }
}

async function requireNoTrace(sandbox: TestSandbox, pid: number): Promise<void> {
  const log = await readFile(join(sandbox.directory, 'logs', 'api.log'), 'utf8')
  const traces = {
    upstreamCalls: (await sandbox.upstreamCalls()).length,
    jobs: (await sandbox.sql('SELECT 1 FROM jobs')).length,
    claims: (await sandbox.sql('SELECT 1 FROM authorizations')).length,
    failures: log.match(/"request failed"|unhandled|uncaught/gi)?.length ?? 0,
    restarts: sandbox.pidOf('api') === pid ? 0 : 1,
  }
  process.kill(pid, 0)
  if (Object.values(traces).some((count) => count > 0)) throw new Error(`traces were left: ${JSON.stringify(traces)}`)
}
