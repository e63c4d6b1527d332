import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { PATIENCE_MS } from '../patience.ts'

const PROGRAM = createRequire(import.meta.url).resolve('s3rver/bin/s3rver.js')

export interface TestS3 {
  readonly url: string
  /** The folder in which the server stores objects. */
  readonly directory: string
  /** Settings of a service that stores its objects here; only the default bucket exists. */
  settings(changes?: Partial<S3Settings>): S3Settings
  stop(): Promise<void>
}

/**
 * Starts s3rver with a bucket on a free loopback port. It checks signatures; it has no lifecycle rules or access
 * blocks.
 */
export async function startTestS3(bucket = 'farebox-test'): Promise<TestS3> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-s3-'))
  const ready = Promise.withResolvers<number>()
  const start = (port: number) =>
    spawnGuarded({
      command: process.execPath,
      // It creates its list tokens with DES, which OpenSSL 3 considers legacy.
      args: [
        '--openssl-legacy-provider',
        PROGRAM,
        `--directory=${directory}`,
        '--address=127.0.0.1',
        `--port=${port}`,
        '--configure-bucket',
        bucket,
      ],
      log: (line) => {
        const listening = /listening on 127\.0\.0\.1:(\d+)/.exec(line)?.[1]
        if (listening !== undefined) ready.resolve(Number(listening))
      },
    })
  let server = start(0)
  let isStopping = false
  void server.exited.then(() => ready.reject(new Error('s3rver ended before it listened')))
  const timer = setTimeout(() => ready.reject(new Error('s3rver does not listen')), PATIENCE_MS)
  const port = await ready.promise
  const url = `http://127.0.0.1:${port}`
  clearTimeout(timer)
  // It has been seen to exit while its clients were killed; an operator's store would be restarted.
  const keepRunning = async () => {
    for (;;) {
      await server.exited
      if (isStopping) return
      server = start(port)
    }
  }
  void keepRunning()
  return {
    url,
    directory,
    settings: (changes = {}) => ({
      S3_BUCKET: bucket,
      S3_ENDPOINT: url,
      S3_REGION: 'us-east-1',
      S3_ACCESS_KEY_ID: 'S3RVER',
      S3_SECRET_ACCESS_KEY: 'S3RVER',
      S3_FORCE_PATH_STYLE: true,
      ...changes,
    }),
    stop: async () => {
      isStopping = true
      await server.stop({ signal: 'SIGKILL' })
      await rm(directory, { recursive: true, force: true })
    },
  }
}
