import { createHash, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { afterEach, describe, expect, it } from 'vitest'
import { openObjectStore } from '#shared/adapters/open-stores.ts'
import type { ObjectUser } from '#shared/media/object-access.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { initializeBucket } from '../../infra/commands/bucket-init/main.ts'
import { findFreePort } from '../../infra/sandbox/processes/free-port.ts'

const SECRET = 'a-secret-nobody-may-see'
async function messageOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'did not fail',
    (error: Error) => error.message,
  )
}
const open = (settings: S3Settings, user: ObjectUser = 'worker', errors: Error[] = []) =>
  openObjectStore(settings, user, (error) => errors.push(error))
interface Recorded {
  readonly method: string
  readonly url: string
  readonly headers: Record<string, unknown>
  readonly body: Buffer
}
const pathOf = ({ url }: Recorded) => new URL(url, 'http://store').pathname
const isObject = (request: Recorded) => /^\/farebox-media\/[a-z]+\//.test(pathOf(request))
/** Of an object or of a part of the bucket's configuration. */
const nameOf = (request: Recorded) => (isObject(request) ? pathOf(request) : request.url)
const isProbe = (url: string) => url.includes('/probe-')
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
    bodyOf: (request: Recorded) => string | Buffer = () => '',
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
    const settings = {
      S3_BUCKET: 'farebox-media',
      S3_ENDPOINT: `http://127.0.0.1:${port}`,
      S3_REGION: 'us-east-1',
      S3_ACCESS_KEY_ID: 'a-key-id',
      S3_SECRET_ACCESS_KEY: SECRET,
      S3_FORCE_PATH_STYLE: true,
    }
    return { settings, all }
  }

  /** Answers as a store that keeps objects and the bucket's configuration, and that refuses puts while `refuses` says so. */
  function keepObjects(refuses: () => boolean = () => false) {
    const kept = new Map<string, Buffer>()
    return record(
      (request) => {
        const { method, headers } = request
        if (isObject(request) && headers['authorization'] === undefined) return 403
        if (isObject(request) && method === 'PUT' && refuses()) return 403
        if (method === 'PUT') kept.set(nameOf(request), request.body)
        if (method === 'DELETE') kept.delete(nameOf(request))
        if (isObject(request) && method === 'GET' && !kept.has(nameOf(request))) return 404
        return method === 'DELETE' ? 204 : 200
      },
      (request) => (request.method === 'GET' ? (kept.get(nameOf(request)) ?? '') : ''),
    )
  }

  it('creates a bucket in its region, blocks all public access and adds one lifecycle rule for each class', async () => {
    let exists = false
    const { settings, all } = await record(({ method, url }) => {
      if (method === 'PUT' && url === '/farebox-media/') exists = true
      // Without the probes, which the first 500 ends.
      return exists && url.startsWith('/farebox-media/staged') ? 500 : exists ? 200 : 404
    })
    expect(await messageOf(initializeBucket({ ...settings, S3_REGION: 'eu-central-1' }))).toContain('S3_ENDPOINT')
    const created = all.find(({ method, url }) => method === 'PUT' && url === '/farebox-media/')
    expect(created?.body.toString()).toContain('<LocationConstraint>eu-central-1</LocationConstraint>')
  })

  it('blocks all public access where the store still accepts uploads', async () => {
    const { settings, all } = await keepObjects()
    const done = { bucket: 'already there', publicAccessBlock: 'done', lifecycleRules: 'done' }
    expect(await initializeBucket(settings)).toMatchObject(done)
    const blocks = all.filter(({ method, url }) => method === 'PUT' && url.endsWith('?publicAccessBlock='))
    expect(blocks).toHaveLength(1)
    for (const setting of ['BlockPublicAcls', 'IgnorePublicAcls', 'BlockPublicPolicy', 'RestrictPublicBuckets'])
      expect(blocks[0]?.body.toString()).toContain(`<${setting}>true</${setting}>`)
  })

  it('removes the public access block where the store refuses uploads with any', async () => {
    let isBlocked = false
    const { settings, all } = await keepObjects(() => {
      const changes = all.filter(({ url }) => url.endsWith('?publicAccessBlock='))
      isBlocked = changes.findLast(({ method }) => method !== 'GET')?.method === 'PUT'
      return isBlocked
    })
    expect(await initializeBucket(settings)).toMatchObject({ publicAccessBlock: 'no block' })
    expect(isBlocked).toBe(false)
    expect(all.map(({ url }) => url)).toContain('/farebox-media/?acl=')
  })

  it('keeps all public access blocked where uploads are refused for another reason', async () => {
    const { settings, all } = await keepObjects(() => true)
    expect(await messageOf(initializeBucket(settings))).toContain('grant s3:PutObject there')
    const changes = all.filter(({ method, url }) => method !== 'GET' && url.endsWith('?publicAccessBlock='))
    expect(changes).toHaveLength(1)
    expect(changes[0]?.body.toString()).toContain('<BlockPublicAcls>true</BlockPublicAcls>')
  })

  it('sends the SHA-256 with every object', async () => {
    const { settings, all } = await record(() => 200)
    const { objects, close } = await open(settings)
    const bytes = Buffer.from('the bytes of an object')
    await objects.put(`staged/${randomUUID()}`, bytes)
    close()
    const put = all.findLast(({ method }) => method === 'PUT')
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
    const { objects, close } = await open(settings)
    expect(await objects.deleteOlderThan('staged', 3_600_000)).toBe(2)
    close()
    const deleted = all
      .filter(({ method, url }) => method === 'DELETE' && !isProbe(url))
      .map(({ url }) => url.split('?')[0])
    expect(deleted).toEqual(['/farebox-media/staged/a', '/farebox-media/staged/c'])
  })

  it('deletes the strays behind ones that the store keeps, and those with foreign names, and counts what is left', async () => {
    const old = '2020-01-01T00:00:00.000Z'
    const pages = [
      `<IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>${item('', old)}${item('held', old)}`,
      `<IsTruncated>false</IsTruncated>${item('a note.txt', old)}${item('z', old)}`,
    ]
    const { settings, all } = await record(
      ({ method, url }) => (method !== 'DELETE' ? 200 : url.includes('/held') ? 403 : 204),
      ({ method, url }) =>
        method === 'GET' ? `<ListBucketResult>${pages[url.includes('token=next') ? 1 : 0]}</ListBucketResult>` : '',
    )
    const { objects, close } = await open(settings)
    expect(await messageOf(objects.deleteOlderThan('staged', 3_600_000))).toContain('1 object under staged/ is left')
    close()
    const asked = all
      .filter(({ method, url }) => method === 'DELETE' && !isProbe(url))
      .map(({ url }) => url.split('?')[0]?.replace('/farebox-media/staged/', ''))
    expect(asked).toEqual(['', 'held', 'a%20note.txt', 'z'])
  })

  it('stops deleting strays while the store is down', async () => {
    const old = '2020-01-01T00:00:00.000Z'
    const many = Array.from({ length: 100 }, (_, index) => item(`stray-${index}`, old)).join('')
    const { settings, all } = await record(
      ({ method, url }) => (method === 'DELETE' && !isProbe(url) ? 503 : 200),
      ({ method }) => (method === 'GET' ? `<ListBucketResult>${many}</ListBucketResult>` : ''),
    )
    const { objects, close } = await open(settings)
    expect(await messageOf(objects.deleteOlderThan('staged', 3_600_000))).toMatch(
      /^\d+ objects under staged\/ are left/,
    )
    close()
    const asked = new Set(all.filter(({ method, url }) => method === 'DELETE' && !isProbe(url)).map(({ url }) => url))
    expect(asked.size).toBeLessThan(40)
  })

  it('retries a failing store three times at most', async () => {
    const { settings, all } = await record(({ method, url }) => (method === 'PUT' && !isProbe(url) ? 503 : 200))
    const { objects, close } = await open(settings)
    await expect(objects.put(`staged/${randomUUID()}`, Buffer.from('x'))).rejects.toBeInstanceOf(Error)
    close()
    expect(all.filter(({ method, url }) => method === 'PUT' && !isProbe(url)).length).toBe(3)
  })
})
