import { createHash, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openObjectStore } from '#shared/adapters/object-store.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { initializeBucket } from '../../../infra/commands/bucket-init.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'

let s3: TestS3
beforeAll(async () => {
  s3 = await startTestS3()
})
afterAll(() => s3.stop())

const SECRET = 'a-secret-nobody-may-see'

async function messageOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'did not fail',
    (error: Error) => error.message,
  )
}

describe('opening the object store', () => {
  it('names S3_BUCKET when the bucket does not exist', async () => {
    const message = await messageOf(openObjectStore(s3.settings({ S3_BUCKET: 'nowhere' })))
    expect(message).toBe(`S3_BUCKET: there is no bucket nowhere at ${s3.url}; npm run bucket:init creates it`)
  })

  it('names the credentials’ settings when they are rejected, without showing them', async () => {
    const settings = s3.settings({ S3_ACCESS_KEY_ID: 'WRONG', S3_SECRET_ACCESS_KEY: SECRET })
    const message = await messageOf(openObjectStore(settings))
    expect(message).toContain('S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY')
    expect(message).toContain('rejects')
    expect(message).not.toContain(SECRET)
  })

  it('names S3_ENDPOINT when nothing listens there', async () => {
    const url = `http://127.0.0.1:${await findFreePort()}`
    const message = await messageOf(openObjectStore(s3.settings({ S3_ENDPOINT: url, S3_SECRET_ACCESS_KEY: SECRET })))
    expect(message).toContain(`S3_ENDPOINT: ${url} cannot be used`)
    expect(message).not.toContain(SECRET)
  })
})

interface Recorded {
  readonly method: string
  readonly url: string
  readonly headers: Record<string, unknown>
  readonly body: Buffer
}

/** Renders one object of an S3 list response. */
const item = (key: string, modified: string) =>
  `<Contents><Key>staged/${key}</Key><LastModified>${modified}</LastModified><Size>1</Size></Contents>`

describe('requests to the store', () => {
  let server: Server | undefined
  afterEach(() => {
    server?.closeAllConnections()
    server?.close()
  })

  async function record(
    statusOf: (request: Recorded) => number,
    bodyOf: (request: Recorded) => string = () => '',
  ): Promise<{ settings: S3Settings; all: Recorded[] }> {
    const all: Recorded[] = []
    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      const { method = '', url = '', headers } = request
      const recorded = { method, url, headers, body: await buffer(request) }
      all.push(recorded)
      response.writeHead(statusOf(recorded)).end(bodyOf(recorded))
    }
    server = createServer((request, response) => void answer(request, response))
    const port = await findFreePort()
    await new Promise<void>((resolve) => server?.listen(port, '127.0.0.1', resolve))
    return { settings: s3.settings({ S3_ENDPOINT: `http://127.0.0.1:${port}`, S3_BUCKET: 'farebox-media' }), all }
  }

  it('creates the bucket, blocks public access and adds one lifecycle rule for each class', async () => {
    const { settings, all } = await record(({ method }) => (method === 'HEAD' ? 404 : 200))
    const done = await initializeBucket({ ...settings, S3_REGION: 'eu-central-1' })
    expect(done).toEqual({ bucket: 'done', publicAccessBlock: 'done', lifecycleRules: 'done' })
    expect(all.map(({ method, url }) => `${method} ${url}`)).toEqual([
      'HEAD /farebox-media/',
      'PUT /farebox-media/',
      'PUT /farebox-media/?publicAccessBlock=',
      'PUT /farebox-media/?lifecycle=',
    ])
    const [, create, block, lifecycle] = all.map(({ body }) => body.toString())
    expect(create).toContain('<LocationConstraint>eu-central-1</LocationConstraint>')
    for (const setting of ['BlockPublicAcls', 'IgnorePublicAcls', 'BlockPublicPolicy', 'RestrictPublicBuckets'])
      expect(block).toContain(`<${setting}>true</${setting}>`)
    const rules = [...(lifecycle ?? '').matchAll(/<Rule>.*?<\/Rule>/gs)].map(([rule]) => ({
      prefix: /<Prefix>(.*?)<\/Prefix>/.exec(rule)?.[1],
      days: /<Days>(\d+)<\/Days>/.exec(rule)?.[1],
      status: /<Status>(.*?)<\/Status>/.exec(rule)?.[1],
    }))
    expect(rules).toEqual([
      { prefix: 'staged/', days: '1', status: 'Enabled' },
      { prefix: 'media/speech/', days: '2', status: 'Enabled' },
      { prefix: 'media/images/', days: '8', status: 'Enabled' },
    ])
  })

  it('only checks whether the bucket exists in a dry run', async () => {
    const { settings, all } = await record(({ method }) => (method === 'HEAD' ? 404 : 200))
    const done = await initializeBucket(settings, true)
    expect(done).toEqual({
      bucket: 'would be done',
      publicAccessBlock: 'would be done',
      lifecycleRules: 'would be done',
    })
    expect(all.map(({ method }) => method)).toEqual(['HEAD'])
  })

  it('sends the SHA-256 with every object', async () => {
    const { settings, all } = await record(() => 200)
    const { objects, close } = await openObjectStore(settings)
    const bytes = Buffer.from('the bytes of an object')
    await objects.put(`staged/${randomUUID()}`, bytes)
    close()
    const put = all.find(({ method }) => method === 'PUT')
    expect(put?.headers['x-amz-checksum-sha256']).toBe(createHash('sha256').update(bytes).digest('base64'))
    expect(put?.body.equals(bytes)).toBe(true)
  })

  it('deletes old objects across several pages of a list and keeps the new ones', async () => {
    const [old, recent] = ['2020-01-01T00:00:00.000Z', new Date().toISOString()]
    const pages = [
      `<IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>${item('a', old)}${item('b', recent)}`,
      `<IsTruncated>false</IsTruncated>${item('c', old)}`,
    ]
    const { settings, all } = await record(
      ({ method }) => (method === 'DELETE' ? 204 : 200),
      ({ method, url }) =>
        method === 'GET' ? `<ListBucketResult>${pages[url.includes('token=next') ? 1 : 0]}</ListBucketResult>` : '',
    )
    const { objects, close } = await openObjectStore(settings)
    expect(await objects.deleteOlderThan('staged', 3_600_000)).toBe(2)
    close()
    const deleted = all.filter(({ method }) => method === 'DELETE').map(({ url }) => url.split('?')[0])
    expect(deleted).toEqual(['/farebox-media/staged/a', '/farebox-media/staged/c'])
  })

  it('retries a failing store three times at most', async () => {
    const { settings, all } = await record(({ method }) => (method === 'PUT' ? 503 : 200))
    const { objects, close } = await openObjectStore(settings)
    await expect(objects.put(`staged/${randomUUID()}`, Buffer.from('x'))).rejects.toBeInstanceOf(Error)
    close()
    expect(all.filter(({ method }) => method === 'PUT').length).toBe(3)
  })
})

describe('npm run bucket:init', () => {
  it('creates a bucket that can be used immediately, reports unsupported steps and is safe to repeat', async () => {
    const settings = s3.settings({ S3_BUCKET: 'made-by-the-command' })
    const unsupported = { publicAccessBlock: 'unsupported', lifecycleRules: 'unsupported' }
    expect(await initializeBucket(settings)).toEqual({ bucket: 'done', ...unsupported })
    expect(await initializeBucket(settings)).toEqual({ bucket: 'already there', ...unsupported })
    const { objects, close } = await openObjectStore(settings)
    const key = `staged/${randomUUID()}`
    await objects.put(key, Buffer.from('x'))
    expect(await objects.get(key)).not.toBeNull()
    close()
  })

  it('names the setting when bucket:init cannot use the store', async () => {
    const message = await messageOf(initializeBucket(s3.settings({ S3_ACCESS_KEY_ID: 'WRONG' })))
    expect(message).toContain('S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY')
  })
})
