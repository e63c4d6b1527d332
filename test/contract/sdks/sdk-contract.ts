import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { readDescription } from '../../support/http/described-answers.ts'
import type { ErrorBody } from '../../support/http/expect-refusal.ts'
import type { ObservedSandbox } from '../../support/processes/observed-sandbox.ts'

/** One call that an SDK can make, always with the headers it is given. */
export interface SdkUse {
  readonly name: string
  readonly call: (headers: Record<string, string>) => Promise<unknown>
  /** Throws unless the result is what an application needs. */
  readonly check: (result: never) => void
  /** Statuses of what the SDK fetches after the result. */
  readonly fetchesAfterwards?: readonly number[]
}

/** A use of an endpoint with the ways in which it can fail. */
export interface SdkCall extends SdkUse {
  /** Another valid request to the same endpoint. */
  readonly callOther: (headers: Record<string, string>) => Promise<unknown>
  /** A request that only the service can find fault with. */
  readonly callInvalid: (headers: Record<string, string>) => Promise<unknown>
  readonly invalidParam: string
}

/** What an application can learn of a failure through the SDK's own error. */
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
  /** More uses of the same endpoints, which fail and are repeated in the same ways. */
  readonly otherUses?: readonly SdkUse[]
  readonly readFailure: (error: unknown) => SdkFailure
}

const PAID_ONCE = { upstreamCalls: 1, transfers: 1 }
const NOT_PAID = { upstreamCalls: 0, transfers: 0 }

/** What must hold for every official client on every endpoint that it supports. */
export function describeSdk({ name, sandbox, calls, otherUses = [], readFailure }: Sdk): void {
  it.each([...calls, ...otherUses])(`${name}, $name: gets the result for one payment`, async (one) => {
    const seen = await sandbox().observe(() => one.call(keyHeader()))
    expect(seen).toMatchObject({ statuses: [402, 200, ...(one.fetchesAfterwards ?? [])], ...PAID_ONCE })
    one.check(seen.value as never)
  })

  describe.each(calls)(`${name}, $name`, (one) => {
    it('tells message, code and param of a 400', async () => {
      const seen = await sandbox().observe(() => one.callInvalid(keyHeader()))
      expect(seen).toMatchObject({ statuses: [400], ...NOT_PAID })
      const { error } = JSON.parse(String(seen.answers[0]?.body)) as ErrorBody
      expect(error.param).toBe(one.invalidParam)
      expect(readFailure(seen.error)).toEqual({
        status: 400,
        message: expect.stringContaining(error.message),
        code: error.code,
        param: error.param,
      })
    })

    it('tells a key used twice from a failure that may pass', async () => {
      const headers = keyHeader()
      expect(await sandbox().observe(() => one.call(headers))).toMatchObject(PAID_ONCE)
      const seen = await sandbox().observe(() => one.callOther(headers))
      expect(seen).toMatchObject({ statuses: [409], ...NOT_PAID })
      expect(seen.answers[0]?.headers.get('x-should-retry')).toBe('false')
      expect(readFailure(seen.error)).toMatchObject({ status: 409, code: 'idempotency_key_reused' })
    })

    it('repeats after a lost answer by itself, and pays once', async () => {
      sandbox().loseNextPaidAnswer()
      const seen = await sandbox().observe(() => one.call(keyHeader()))
      expect(seen).toMatchObject({ statuses: [402, 200, 402, 200, ...(one.fetchesAfterwards ?? [])], ...PAID_ONCE })
      expect(new Set(seen.answers.slice(0, 4).map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1)
      const [, lost, , repeated] = seen.answers
      expect(repeated?.body.equals(lost?.body ?? Buffer.alloc(0))).toBe(true)
      expect(repeated?.headers.get('x-receipt-id')).toBe(lost?.headers.get('x-receipt-id'))
      one.check(seen.value as never)
    })
  })
}

/** Last in a file: every answer that its tests brought about is one that `/openapi.json` describes. */
export function describeAnswers(sandbox: () => ObservedSandbox): void {
  it('has had only answers that /openapi.json describes', async () => {
    const { problemsOf } = await readDescription(sandbox().info.baseUrl)
    expect(sandbox().answers.length).toBeGreaterThan(0)
    expect(sandbox().answers.flatMap(problemsOf)).toEqual([])
  })
}

/**
 * The failure that the vendors' own clients throw, LangChain's included. OpenAI's holds the inner error, Anthropic's the
 * whole body and says it in its message as JSON.
 */
export function readVendorFailure(error: unknown): SdkFailure {
  const { status, error: body } = error as { status: number; error: ErrorBody | ErrorBody['error'] }
  const { message, code, param } = 'error' in body ? body.error : body
  return { status, message, code, param }
}

export function keyHeader(): Record<string, string> {
  return { 'x-idempotency-key': randomUUID() }
}

/** The shapes that both chat families' tests ask for. */
export const weatherParameters = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
} as const

const MP3_SYNC = 0xff
const ID3 = 'ID3'

/** Whether bytes begin as an MP3 does: with a tag or a frame. */
export function startsAsMp3(bytes: Uint8Array): boolean {
  return bytes[0] === MP3_SYNC || Buffer.from(bytes.subarray(0, 3)).toString() === ID3
}

/** The eight bytes that every PNG begins with. */
export function isPng(bytes: Uint8Array): boolean {
  return Buffer.from(bytes.subarray(0, 8)).equals(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]))
}
