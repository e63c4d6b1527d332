import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import {
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createS3Client } from '#shared/adapters/s3/s3-client.ts'
import { hashMediaToken } from '#shared/media/media.ts'
import { RETENTION_CLASSES, type RetentionClass } from '#shared/media/retention.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { payForCall } from '../../support/payer/paid-call.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import { haveS3, startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const DAY_SECONDS = 10
const POLL_MS = 250
const CLASSES = Object.keys(RETENTION_CLASSES) as RetentionClass[]
const CHAT = {
  model: 'textmodel-2.5-pro',
  max_tokens: 100,
  messages: [{ role: 'user', content: 'Which stop is next?' }],
}
const IMAGE = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram at night' }
const SPEECH = { model: 'speechvendor/flash-v2.5', input: 'Next stop: the end of the line.' }
const initializeBucket = (s3: TestS3) => runCommand('infra/commands/bucket-init/main.ts', [], s3.environment())
async function keysIn(client: S3Client, Bucket: string): Promise<readonly string[]> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }))
  return Contents.map(({ Key }) => String(Key))
}
/** A bucket in which a day lasts ten seconds, with an object of each class and one outside; filled before other tests run. */
interface Calendar {
  readonly s3: TestS3
  readonly client: S3Client
  readonly storedAt: number
}
type Expiry = Partial<Record<RetentionClass, number>>
async function startCalendar(): Promise<Calendar> {
  const s3 = await startTestS3({ daySeconds: DAY_SECONDS, bucket: null })
  await initializeBucket(s3)
  const client = createS3Client(s3.settings())
  const storedAt = Date.now()
  const prefixes = [...Object.values(RETENTION_CLASSES).map(({ prefix }) => prefix), 'elsewhere']
  for (const prefix of prefixes)
    await client.send(new PutObjectCommand({ Bucket: s3.settings().S3_BUCKET, Key: `${prefix}/object`, Body: 'x' }))
  return { s3, client, storedAt }
}
/** Returns after how many seconds each expired object was first missing, once all are, or `signal` ends the watch. */
async function watchExpiry({ s3, client, storedAt }: Calendar, signal: AbortSignal): Promise<Expiry> {
  const gone: Expiry = {}
  while (Object.keys(gone).length < CLASSES.length && !signal.aborted) {
    await delay(POLL_MS)
    const keys = await keysIn(client, s3.settings().S3_BUCKET)
    for (const name of CLASSES)
      if (!keys.includes(`${RETENTION_CLASSES[name].prefix}/object`)) gone[name] ??= (Date.now() - storedAt) / 1000
  }
  return gone
}

describe.skipIf(!haveS3())('farebox on a real S3 server', () => {
  let calendar: Calendar
  let expiry: Promise<Expiry>
  const watching = new AbortController()
  let s3: TestS3
  let link: TcpFaultProxy
  let client: S3Client
  let sandbox: TestSandbox
  let prepared: Awaited<ReturnType<typeof initializeBucket>>
  beforeAll(async () => {
    calendar = await startCalendar()
    expiry = watchExpiry(calendar, watching.signal)
    expiry.catch(() => undefined)
    s3 = await startTestS3({ bucket: null })
    prepared = await initializeBucket(s3)
    client = createS3Client(s3.settings())
    link = await startTcpFaultProxy({ host: '127.0.0.1', port: Number(new URL(s3.url).port) })
    sandbox = await startTestSandbox({
      outerServices: s3.environment({ S3_ENDPOINT: `http://127.0.0.1:${link.port}` }),
      apiEnvironment: { MEDIA_DELIVERY: 'redirect' },
    })
  })
  afterAll(async () => {
    watching.abort()
    await expiry?.catch(() => undefined)
    await sandbox?.stop()
    await link?.stop()
    for (const one of [client, calendar?.client]) one?.destroy()
    for (const one of [s3, calendar?.s3]) await one?.stop()
  })

  const keys = () => keysIn(client, s3.settings().S3_BUCKET)

  /** Pays for media and returns their URL. */
  async function mediaUrl(path: string, body: Record<string, unknown>): Promise<string> {
    const { bytes } = await payForCall(sandbox, path, body)
    const { data } = JSON.parse(bytes.toString()) as { data: [{ url: string }] }
    return data[0].url
  }

  it('bucket-init says what it did, what this store cannot do, and that nobody can read without keys', () => {
    expect(prepared).toMatchObject({ exitCode: 0, errors: '' })
    expect(prepared.output).toBe(`bucket farebox-test: done
public access blocked: all but BlockPublicAcls, with which this store refuses every upload. It was
  taken back, and the bucket’s ACL is private; IgnorePublicAcls leaves other ACLs without effect
lifecycle rules: done
objects written, read, listed and deleted under staged/, media/speech/, media/images/
reads without keys: refused
`)
  })

  it.each([
    ['/v1/images/generations', IMAGE, 'image/png'],
    ['/v1/audio/speech', SPEECH, 'audio/mpeg'],
  ] as const)(
    'serves the media of POST %s by a presigned URL of the store, and by no other',
    async (path, body, type) => {
      const url = await mediaUrl(path, body)
      const redirect = await fetch(url, { redirect: 'manual' })
      const presigned = new URL(redirect.headers.get('location') ?? '')
      expect({ status: redirect.status, port: Number(presigned.port) }).toEqual({ status: 302, port: link.port })
      const answer = await fetch(presigned)
      expect({ status: answer.status, type: answer.headers.get('content-type') }).toEqual({ status: 200, type })
      const stored = await client.send(
        new GetObjectCommand({
          Bucket: s3.settings().S3_BUCKET,
          Key: presigned.pathname.split('/').slice(2).join('/'),
        }),
      )
      const bytes = Buffer.from(await answer.arrayBuffer())
      expect(bytes.equals((await stored.Body?.transformToByteArray()) ?? Buffer.alloc(0))).toBe(true)
      presigned.search = ''
      expect((await fetch(presigned)).status).toBe(403)
    },
  )

  it('deletes a staged upload after its transcription', async () => {
    await payForCall(sandbox, '/v1/audio/transcriptions', {
      model: 'speechvendor/scribe-v2',
      audio_base64: sandbox.sample.toString('base64'),
    })
    await expect.poll(keys).not.toContainEqual(expect.stringMatching(/^staged\//))
  })

  it('deletes media at their expiry, and no link to them is valid for longer', async () => {
    const url = await mediaUrl('/v1/images/generations', IMAGE)
    const [media] = await sandbox.sql<{ object_key: string }>('SELECT object_key FROM media WHERE token_sha256 = $1', [
      hashMediaToken(url.split('/').at(-1) ?? ''),
    ])
    expect(await keys()).toContain(media?.object_key)
    expect((await fetch(url)).status).toBe(200)
    await sandbox.sql("UPDATE media SET expires_at = now() + interval '2 s' WHERE object_key = $1", [media?.object_key])
    const redirect = await fetch(url, { redirect: 'manual' })
    const lifetime = Number(new URL(redirect.headers.get('location') ?? '').searchParams.get('X-Amz-Expires'))
    expect(lifetime).toBeLessThanOrEqual(2)
    await expect.poll(async () => (await fetch(url)).status).toBe(404)
    await expect.poll(keys).not.toContain(media?.object_key)
    const [row] = await sandbox.sql<{ due: boolean }>(
      'SELECT object_deleted_at >= expires_at AS due FROM media WHERE object_key = $1',
      [media?.object_key],
    )
    expect(row?.due).toBe(true)
  })

  const recording = () => ({
    model: 'speechvendor/scribe-v2',
    audio_base64: sandbox.sample.toString('base64'),
  })
  /** Returns what sends a call under a key of its own. */
  function sender(path: string, body: object) {
    const own = { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() }
    return (headers: Record<string, string>) =>
      fetch(sandbox.info.baseUrl + path, {
        method: 'POST',
        headers: { ...own, ...headers },
        body: JSON.stringify(body),
      })
  }
  async function removeBucket(): Promise<void> {
    const { S3_BUCKET: Bucket } = s3.settings()
    for (const Key of await keys()) await client.send(new DeleteObjectCommand({ Bucket, Key }))
    await client.send(new DeleteBucketCommand({ Bucket }))
  }

  it.each([
    ['store is away', () => link.setFault({ kind: 'refuse' }), () => link.setFault(null)],
    ['bucket is missing', removeBucket, async () => void (await initializeBucket(s3))],
  ])(
    'starts API and worker while the %s: text is served, uploads and media are refused unpaid, and served once it is back',
    async (_, lose, restore) => {
      await lose()
      onTestFinished(restore)
      for (const part of ['api', 'worker'] as const) {
        process.kill(sandbox.pidOf(part), 'SIGKILL')
        await sandbox.restart(part)
      }
      await payForCall(sandbox, '/v1/chat/completions', CHAT)
      for (const [path, body] of [
        ['/v1/audio/transcriptions', recording()],
        ['/v1/audio/speech', SPEECH],
        ['/v1/images/generations', IMAGE],
      ] as const) {
        const send = sender(path, body)
        const refused = await send(await sandbox.payer.sign(await send({})))
        expect({ status: refused.status, body: await refused.json() }).toMatchObject({
          status: 503,
          body: { error: { code: 'storage_unavailable', payment: 'none' } },
        })
      }
      expect(
        await sandbox.sql("SELECT id FROM jobs WHERE operation <> 'createChatCompletion' AND state <> 'completed'"),
      ).toEqual([])
      await restore()
      await payForCall(sandbox, '/v1/audio/transcriptions', recording())
      await mediaUrl('/v1/audio/speech', SPEECH)
    },
  )

  it('lets the store delete what the service failed to, day by day, by the rules of bucket-init', async () => {
    const gone = await expiry
    console.log(`a day of ${DAY_SECONDS} s; gone after: ${JSON.stringify(gone)}`)
    // A busy store deletes late and in any order, but never early. It counts whole seconds from the one of the upload.
    for (const name of CLASSES)
      expect(gone[name]).toBeGreaterThan(RETENTION_CLASSES[name].backstopDays * DAY_SECONDS - 1)
    expect(await keysIn(calendar.client, calendar.s3.settings().S3_BUCKET)).toEqual(['elsewhere/object'])
  })
})
