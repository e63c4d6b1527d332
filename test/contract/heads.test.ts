import { randomUUID } from 'node:crypto'
import { type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { operations } from '#shared/operations/registry.ts'
import { exampleRequest } from '../../api/schemas/operation-schemas.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../support/processes/test-sandbox.ts'

/** Of the 4,096 bytes that nginx takes of an answer's head, what the service may use. */
const LONGEST_HEAD = 3900
/** What documents.test.ts leaves to all headers but PAYMENT-REQUIRED, and to those for a page in a browser. */
const LONGEST_OTHERS = 600
const LONGEST_OTHERS_OF_A_PAGE = 1150
const FROM_A_PAGE = { origin: 'https://page.example' }

let sandbox: SharedSandbox
/** Has approved nothing and brings no permit. */
let stranger: Payer
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  stranger = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 5_000_000n, approved: false })
})
afterAll(() => sandbox.stop())

interface Head {
  readonly status: number
  readonly bytes: number
  /** Without PAYMENT-REQUIRED. */
  readonly others: number
  readonly response: Response
}

/** Sends a request as it stands and returns the size of the answer's head on the wire. */
async function headOf(method: string, path: string, headers: object, body = ''): Promise<Head> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const sent = request(new URL(path, sandbox.info.baseUrl), { method, headers: { ...headers } }, resolve)
  sent.on('error', reject)
  sent.end(body)
  const answer = await promise
  answer.resume()
  const { rawHeaders, statusCode = 0, statusMessage } = answer
  const lines = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1]}\r\n`] : []))
  const bytes = `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join('')}\r\n`.length
  const challenge = lines.find((line) => line.toLowerCase().startsWith('payment-required:'))
  const response = new Response(null, { status: statusCode, headers: answer.headers as Record<string, string> })
  return { status: statusCode, bytes, others: bytes - (challenge?.length ?? 0), response }
}

function expectToPass({ status, bytes, others }: Head, expected: number, longest = LONGEST_OTHERS_OF_A_PAGE): void {
  expect({ status, passes: bytes < LONGEST_HEAD, bytes }).toEqual({ status: expected, passes: true, bytes })
  expect(others).toBeLessThan(longest)
}

describe.each(operations)('the answers of $id', (operation) => {
  const json = { 'content-type': 'application/json' }
  const body = JSON.stringify(exampleRequest(operation, publishedCatalog))
  const call = (key: string, payment: object = {}) =>
    headOf('POST', operation.path, { ...json, ...FROM_A_PAGE, 'x-idempotency-key': key, ...payment }, body)

  it('a probe’s head passes a proxy that takes 4 KB', async () => {
    expectToPass(await headOf('POST', operation.path, json, '{}'), 402, LONGEST_OTHERS)
  })

  it('a price, a refusal, a missing allowance and a paid answer pass a proxy that takes 4 KB', async () => {
    const key = randomUUID()
    const priced = await call(key)
    expectToPass(priced, 402)
    const required = challengeOf(priced.response)
    const forged = await signCustomPayment(required, stranger, { terms: { amount: 1n } })
    expectToPass(await call(key, paymentHeader(forged)), 402)
    expectToPass(await call(key, paymentHeader(await signCustomPayment(required, stranger))), 412)
    expectToPass(await call(key, await sandbox.payer.sign(priced.response)), 200, LONGEST_HEAD)
  })
})
