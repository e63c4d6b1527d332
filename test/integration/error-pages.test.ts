import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openObjectStore } from '#shared/adapters/open-stores.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { ERROR_BODIES, ERROR_STATUSES } from '../support/http/error-pages.ts'

const EMPTY_LIST =
  '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></ListBucketResult>'

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => 'did not fail',
    (error: unknown) => String(error),
  )

describe('a proxy’s error page in front of an S3 store', () => {
  let answer: { status: number; type: string; body: string }
  let hasBucket = false
  let server: Server
  let settings: S3Settings
  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume()
      if (hasBucket && request.url?.includes('list-type=2')) return void response.end(EMPTY_LIST)
      response.writeHead(answer.status, { 'content-type': answer.type }).end(answer.body)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    settings = {
      S3_BUCKET: 'a-bucket',
      S3_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      S3_REGION: 'us-east-1',
      S3_FORCE_PATH_STYLE: true,
      S3_ACCESS_KEY_ID: 'an-id',
      S3_SECRET_ACCESS_KEY: 'a-secret',
    }
  })
  afterAll(() => server.close())

  const open = async (errors: Error[]) => await openObjectStore(settings, 'worker', (error) => errors.push(error))
  const cases = ERROR_STATUSES.flatMap((status) =>
    Object.entries(ERROR_BODIES).map(([kind, page]) => ({ status, kind, page })),
  )

  it.each(cases)('starts with $status as $kind, and names status and setting', async ({ status, page }) => {
    answer = { status, type: page.type, body: page.body(status) }
    const errors: Error[] = []
    const { check, close } = await open(errors)
    const says = {
      403: `these credentials may not list objects under staged/ in the bucket a-bucket at ${settings.S3_ENDPOINT}`,
      404: `S3_BUCKET: there is no bucket a-bucket at ${settings.S3_ENDPOINT}`,
    }[status as number]
    const expected = says ?? `S3_ENDPOINT: ${settings.S3_ENDPOINT} cannot be reached: HTTP ${status}`
    expect(errors[0]?.message).toContain(expected)
    expect(await failureOf(check())).toContain(expected)
    expect(errors[0]?.message).not.toMatch(/XML|Unknown/)
    close()
  })

  it.each(cases)('no object is taken for a missing one behind $status as $kind', async ({ status, page }) => {
    answer = { status, type: page.type, body: page.body(status) }
    const { objects, close } = await open([])
    const key = `media/speech/${randomUUID()}`
    expect(await failureOf(objects.get(key))).not.toBe('did not fail')
    expect(await failureOf(objects.put(key, Buffer.from('x')))).not.toBe('did not fail')
    close()
  })

  it.each(Object.entries(ERROR_BODIES))(
    'an object behind 404 as %s is missing once the bucket answers',
    async (_, page) => {
      answer = { status: 404, type: page.type, body: page.body(404) }
      hasBucket = true
      onTestFinished(() => void (hasBucket = false))
      const { objects, close } = await open([])
      expect(await objects.get(`media/speech/${randomUUID()}`)).toBeNull()
      close()
    },
  )
})
