import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { objectsInBucket } from '../../resilience/checker/read-objects.ts'
import { haveRedis, startTestRedis } from '../../support/processes/redis-server.ts'
import { haveS3, startTestS3 } from '../../support/processes/s3-server.ts'

const DEMO = fileURLToPath(new URL('../../../infra/sandbox/demo/main.ts', import.meta.url))

it.skipIf(!haveRedis() || !haveS3())(
  'npm run demo uses the queue of QUEUE_URL and the object store of S3_ENDPOINT',
  async () => {
    const [redis, s3] = await Promise.all([startTestRedis(), startTestS3()])
    onTestFinished(async () => {
      await redis.stop()
      await s3.stop()
    })
    const settings = s3.settings({ S3_BUCKET: 'farebox-demo' })
    const lines: string[] = []
    const demo = spawnGuarded({
      command: process.execPath,
      args: [DEMO],
      env: {
        PATH: process.env['PATH'],
        HOME: process.env['HOME'],
        QUEUE_URL: redis.url,
        ...s3.environment({ S3_BUCKET: 'farebox-demo' }),
      },
      log: (line) => lines.push(line),
    })
    const exit = await demo.exited
    // The last lines may arrive after the exit.
    await expect
      .poll(() => ({ ...exit, output: lines.join('\n') }))
      .toMatchObject({
        code: 0,
        output: expect.stringMatching(/receipt[^]*3 recordings transcribed[^]*I am the farebox/),
      })
    // The jobs went through this Redis, and the generated media are in this store's bucket.
    expect(await redis.client.keys('{farebox-*}:transcriptions:id')).toHaveLength(1)
    const objects = await objectsInBucket(settings)()
    for (const kind of ['media/images', 'media/speech'])
      expect(objects.filter(({ key }) => key.startsWith(`${kind}/`))).not.toEqual([])
  },
)
