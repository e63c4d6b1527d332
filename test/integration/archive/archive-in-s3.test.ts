import { PutBucketLifecycleConfigurationCommand } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openArchive } from '#shared/adapters/object-store.ts'
import { createS3Client } from '#shared/adapters/s3/client.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { main } from '../../../infra/commands/archive.ts'
import { initializeBucket } from '../../../infra/commands/bucket-init.ts'
import { NEXT_MONTH, oldCalls } from '../../support/ledger/old-calls.ts'
import { openReader } from '../../support/ledger/test-archive.ts'
import { copyDatabase, createTestDatabase } from '../../support/ledger/test-database.ts'
import { createTestLedger, openTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { callCommand } from '../../support/processes/call-command.ts'
import { haveS3, startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'

const canRunS3 = haveS3()

describe.skipIf(!canRunS3)('an archive in a bucket', () => {
  let s3: TestS3
  let ledger: TestLedger
  beforeAll(async () => {
    s3 = await startTestS3({ bucket: null })
    ledger = await createTestLedger(4)
  })
  afterAll(async () => {
    await ledger.close()
    await s3.stop()
  })
  const run = ({
    ledger: of = ledger,
    settings = {},
    task = ['--before', NEXT_MONTH],
  }: {
    ledger?: TestLedger | undefined
    settings?: Partial<S3Settings>
    task?: readonly string[]
  } = {}) => callCommand(() => main(task, { DATABASE_URL: of.url, ...s3.environment(settings) }))
  const readReceipts = async (of = ledger) => {
    const opened = await openArchive(s3.settings())
    const rows = await of.sql<{ id: string }>('SELECT id FROM receipts ORDER BY id')
    const reader = openReader(of, opened.objects)
    const receipts = await Promise.all(rows.map(async ({ id }) => JSON.stringify(await reader.findReceipt(id))))
    opened.close()
    return receipts
  }

  it('is refused while there is no bucket, or none that the keys open', async () => {
    await oldCalls(ledger, 1)
    const missing = await run()
    expect([missing.exitCode, missing.errors]).toEqual([2, expect.stringContaining('npm run bucket:init creates it')])
    await initializeBucket(s3.settings())
    const wrong = await run({ settings: { S3_SECRET_ACCESS_KEY: 'wrong' } })
    expect([wrong.exitCode, wrong.errors]).toEqual([2, expect.stringContaining('rejects the signature')])
  })

  it('is refused while a lifecycle rule would delete archived receipts, and takes those of bucket:init', async () => {
    const setRules = async (prefix: string) => {
      const client = createS3Client(s3.settings())
      await client.send(
        new PutBucketLifecycleConfigurationCommand({
          Bucket: s3.settings().S3_BUCKET,
          LifecycleConfiguration: {
            Rules: [{ ID: 'everything', Status: 'Enabled', Filter: { Prefix: prefix }, Expiration: { Days: 30 } }],
          },
        }),
      )
      client.destroy()
    }
    for (const prefix of ['', 'arch', 'archive/calls/2026']) {
      await setRules(prefix)
      const { exitCode, errors } = await run()
      expect([prefix, exitCode, errors]).toEqual([
        prefix,
        1,
        expect.stringContaining('the lifecycle rule everything would delete archived receipts'),
      ])
    }
    await initializeBucket(s3.settings())
    const receipts = await readReceipts()
    expect((await run()).output).toContain('1 calls in 1 objects')
    expect(await readReceipts()).toEqual(receipts)
  })

  it('continues in a ledger that was restored from an older backup', async () => {
    const database = await createTestDatabase()
    const atBackup = openTestLedger({ url: database.url, drop: async () => undefined }, 4)
    await oldCalls(atBackup, 2)
    // A database is copied while nobody is connected to it.
    await atBackup.close()
    const [lost, restored] = [await copyDatabase(database.url), database].map((each) => openTestLedger(each, 4))
    const receipts = await readReceipts(restored)
    const readObjects = (of = restored) => of?.sql('SELECT key, sha256 FROM archive_objects ORDER BY key')
    expect((await run({ ledger: lost })).exitCode).toBe(0)
    expect((await run({ ledger: restored })).exitCode).toBe(0)
    expect(await readObjects(restored)).toEqual(await readObjects(lost))
    expect(await readReceipts(restored)).toEqual(receipts)
    expect((await run({ ledger: restored, task: ['--verify'] })).output).toBe('1 objects are as they were archived.\n')
    await lost?.close()
    await restored?.close()
  })
})
