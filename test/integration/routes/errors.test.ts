import fastify from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { addErrorHandling } from '../../../api/plugins/errors.ts'
import { newRequestId } from '../../../api/plugins/request-context.ts'

const apps: ReturnType<typeof fastify>[] = []
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close()
})

/** Answers one request with `thrown` and returns the response with what was logged. */
async function answerTo(thrown: unknown) {
  const logged: { level: string; message: string; fields: object }[] = []
  const log = (level: string) => (message: string, fields: object) => void logged.push({ level, message, fields })
  const app = fastify({ genReqId: newRequestId })
  apps.push(app)
  app.decorateRequest('outcome')
  addErrorHandling(app, () => false, { info: log('info'), warn: log('warn'), error: log('error') })
  app.get('/', () => {
    throw thrown
  })
  return { answer: await app.inject('/'), logged }
}

describe('what is logged about a failure', () => {
  it.each(['overloaded', 'capacity_exceeded', 'allowance_pending', 'sponsoring_disabled'] satisfies ErrorCode[])(
    'logs %s below the level of errors and without a stack, since callers can cause it at will',
    async (code) => {
      const { answer, logged } = await answerTo(new AppError(code, { cause: new Error('why') }))
      expect(answer.statusCode).toBe(503)
      expect(logged).toEqual([
        { level: 'info', message: 'request shed', fields: { requestId: expect.any(String), code } },
      ])
    },
  )

  it('logs a failure of the service as an error with its cause', async () => {
    const cause = new Error('why')
    const { answer, logged } = await answerTo(new AppError('storage_unavailable', { cause }))
    expect(answer.statusCode).toBe(503)
    expect(logged).toMatchObject([{ level: 'error', fields: { code: 'storage_unavailable', error: cause } }])
  })

  it('logs nothing about a refused request', async () => {
    expect((await answerTo(new AppError('rate_limited'))).logged).toEqual([])
  })
})

describe('the headers that SDKs read', () => {
  it('a permit in use is a conflict that SDKs retry, after a part of a second', async () => {
    const { answer } = await answerTo(new AppError('permit_already_used', { retryAfterSeconds: 0.5 }))
    expect([answer.statusCode, answer.headers]).toMatchObject([
      409,
      { 'x-should-retry': 'true', 'retry-after': '1', 'retry-after-ms': '500' },
    ])
  })

  it('any other conflict is one that SDKs do not retry', async () => {
    const { answer } = await answerTo(new AppError('idempotency_key_reused'))
    expect(answer.headers).toMatchObject({ 'x-should-retry': 'false' })
    expect(answer.headers).not.toHaveProperty('retry-after')
  })
})

describe('errors of plugins', () => {
  it.each([
    [403, 404, 'not_found'],
    [404, 404, 'not_found'],
    [400, 400, 'malformed_http'],
    [500, 503, 'internal_error'],
  ])('answers an error of status %i with %i and the common error body', async (statusCode, status, code) => {
    const { answer } = await answerTo(Object.assign(new Error('secret'), { statusCode }))
    expect({ status: answer.statusCode, body: answer.json() }).toMatchObject({
      status,
      body: { type: 'error', error: { code } },
    })
    expect(answer.body).not.toContain('secret')
  })
})
