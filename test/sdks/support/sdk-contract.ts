import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createFarebox, walletFromPrivateKey } from '../../../client/farebox.ts'
import { readDescription } from '../../support/http/described-answers.ts'
import type { ErrorBody } from '../../support/http/expect-refusal.ts'
import type { Observation, ObservedSandbox } from '../../support/processes/observed-sandbox.ts'

/** One call that an SDK can make, with the given headers. */
export interface SdkUse {
  readonly name: string
  readonly call: (headers: Record<string, string>) => Promise<unknown>
  /** Throws unless the result is usable by an application. */
  readonly check: (result: never) => void
  /** Statuses of the SDK's requests after the result. */
  readonly fetchesAfterwards?: readonly number[]
}

/** A use of an endpoint with requests that fail. */
export interface SdkCall extends SdkUse {
  /** Another valid request to the same endpoint. */
  readonly callOther: (headers: Record<string, string>) => Promise<unknown>
  /** A request that only the service can recognize as invalid. */
  readonly callInvalid: (headers: Record<string, string>) => Promise<unknown>
  readonly invalidParam: string
}

/** The parts of a failure that an application can read from the SDK's error. */
export interface SdkFailure {
  readonly status: number | undefined
  readonly message: string
  readonly code: unknown
  readonly param: unknown
}

export interface Sdk {
  readonly name: string
  readonly sandbox: () => ObservedSandbox
  readonly calls: readonly SdkCall[]
  /** Further uses of the same endpoints, which fail and are repeated in the same ways. */
  readonly otherUses?: readonly SdkUse[]
  readonly readFailure: (error: unknown) => SdkFailure
}

const PAID_ONCE = { upstreamCalls: 1, transfers: 1 }
const NOT_PAID = { upstreamCalls: 0, transfers: 0 }
const UUID = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/

/** Registers the tests that every official client must pass on every endpoint that it supports. */
export function describeSdk({ name, sandbox, calls, otherUses = [], readFailure }: Sdk): void {
  it.each([...calls, ...otherUses])(`${name}, $name: returns the result for sdkCall payment`, async (sdkCall) => {
    const observed = await sandbox().observe(() => sdkCall.call(keyHeader()))
    expect(observed).toMatchObject({ statuses: [402, 200, ...(sdkCall.fetchesAfterwards ?? [])], ...PAID_ONCE })
    sdkCall.check(observed.value as never)
  })

  it.each(otherUses)(`${name}, $name: farebox.fetch pays for it without a header of the caller`, async (sdkCall) => {
    const observed = await callThroughFarebox(sandbox(), sdkCall)
    expect(observed).toMatchObject({ statuses: [402, 200], ...PAID_ONCE })
    sdkCall.check(observed.value as never)
  })

  describe.each(calls)(`${name}, $name`, (sdkCall) => {
    it('reports message, code and param of a 400 [spec O26]', async () => {
      const observed = await sandbox().observe(() => sdkCall.callInvalid(keyHeader()))
      expect(observed).toMatchObject({ statuses: [400], ...NOT_PAID })
      const { error } = JSON.parse(String(observed.answers[0]?.body)) as ErrorBody
      expect(error.param).toBe(sdkCall.invalidParam)
      expect(readFailure(observed.error)).toEqual({
        status: 400,
        message: expect.stringContaining(error.message),
        code: error.code,
        param: error.param,
      })
    })

    it('reports a reused key without repeating the request [spec O27]', async () => {
      const headers = keyHeader()
      expect(await sandbox().observe(() => sdkCall.call(headers))).toMatchObject(PAID_ONCE)
      const observed = await sandbox().observe(() => sdkCall.callOther(headers))
      expect(observed).toMatchObject({ statuses: [409], ...NOT_PAID })
      expect(observed.answers[0]?.headers.get('x-should-retry')).toBe('false')
      expect(readFailure(observed.error)).toMatchObject({ status: 409, code: 'idempotency_key_reused' })
    })

    it('through farebox.fetch, retries keep one key without a header of the caller, and pay once', async () => {
      sandbox().loseNextPaidAnswer()
      const observed = await callThroughFarebox(sandbox(), sdkCall)
      // The repeated request brings the payment at once.
      expect(observed).toMatchObject({ statuses: [402, 200, 200, ...(sdkCall.fetchesAfterwards ?? [])], ...PAID_ONCE })
      const keys = observed.answers.slice(0, 3).map(({ idempotencyKey }) => idempotencyKey)
      expect(keys).toEqual([expect.stringMatching(UUID), keys[0], keys[0]])
      sdkCall.check(observed.value as never)
    })

    it('repeats the request after a lost answer, and pays once', async () => {
      sandbox().loseNextPaidAnswer()
      const observed = await sandbox().observe(() => sdkCall.call(keyHeader()))
      expect(observed).toMatchObject({
        statuses: [402, 200, 402, 200, ...(sdkCall.fetchesAfterwards ?? [])],
        ...PAID_ONCE,
      })
      expect(new Set(observed.answers.slice(0, 4).map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1)
      const [, lost, , repeated] = observed.answers
      expect(repeated?.body.equals(lost?.body ?? Buffer.alloc(0))).toBe(true)
      expect(repeated?.headers.get('x-receipt-id')).toBe(lost?.headers.get('x-receipt-id'))
      sdkCall.check(observed.value as never)
    })
  })
}

/** Makes one call with the client library's `fetch` in the SDK. */
async function callThroughFarebox(sandbox: ObservedSandbox, { call }: SdkUse): Promise<Observation<unknown>> {
  const { baseUrl, rpcUrl, payer } = sandbox.info
  const wallet = walletFromPrivateKey(payer.privateKey)
  // The client's own question about the allowance is none of the SDK's requests.
  const observing: typeof fetch = (input, init) =>
    new Request(input, init).url.includes('/v1/allowances') ? fetch(input, init) : sandbox.observingFetch(input, init)
  const farebox = await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory', verify: 'never', fetch: observing })
  const observed = await sandbox.observe(() => sandbox.payThrough(farebox.fetch, () => call({})))
  await farebox.close()
  return observed
}

/** Registers the last test of a file: `/openapi.json` describes every answer to its tests. */
export function describeAnswers(sandbox: () => ObservedSandbox): void {
  it('has received only answers that /openapi.json describes', async () => {
    const { problemsOf } = await readDescription(sandbox().info.baseUrl)
    expect(sandbox().answers.length).toBeGreaterThan(0)
    expect(sandbox().answers.flatMap(problemsOf)).toEqual([])
  })
}

/**
 * Reads the failure that the vendors' own clients throw, LangChain's included. OpenAI's contains the inner error, Anthropic's
 * the whole body, which is also its message as JSON.
 */
export function readVendorFailure(error: unknown): SdkFailure {
  const { status, error: body } = error as { status: number; error: ErrorBody | ErrorBody['error'] }
  const { message, code, param } = 'error' in body ? body.error : body
  return { status, message, code, param }
}

export function keyHeader(): Record<string, string> {
  return { 'x-idempotency-key': randomUUID() }
}

/** The schema that the tests of both chat families use. */
export const weatherParameters = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
} as const

const MP3_SYNC = 0xff
const ID3 = 'ID3'

/** Returns whether bytes start like an MP3: with a tag or a frame. */
export function startsAsMp3(bytes: Uint8Array): boolean {
  return bytes[0] === MP3_SYNC || Buffer.from(bytes.subarray(0, 3)).toString() === ID3
}

/** Returns whether bytes start with the eight bytes of every PNG. */
export function isPng(bytes: Uint8Array): boolean {
  return Buffer.from(bytes.subarray(0, 8)).equals(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]))
}
