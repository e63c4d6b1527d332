import { z } from 'zod'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import type { OuterServices } from '../../infra/sandbox/outer-services.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../support/http/tcp-fault-proxy.ts'
import { startTestRedis, type TestRedis } from '../support/processes/redis-server.ts'
import { startTestS3 } from '../support/processes/s3-server.ts'

/** What a campaign puts in place of the queue in PostgreSQL and of the folder for objects. */
export const outerServiceKinds = ['redis', 's3'] as const
export type OuterServiceKind = (typeof outerServiceKinds)[number]

const onSchema = z
  .string()
  .transform((list) => list.split(',').filter((name) => name !== ''))
  .pipe(z.array(z.enum(outerServiceKinds)))

/** Reads the option `--on redis,s3` of a campaign; an empty text is the sandbox's own queue and folder. */
export function parseOn(text: string): readonly OuterServiceKind[] {
  return onSchema.parse(text)
}

export interface CampaignServices {
  /** What the sandbox is told. */
  readonly settings: OuterServices
  /** Keeps its messages over a restart (AOF). `null` for the queue in PostgreSQL. */
  readonly redis: TestRedis | null
  /** Past the proxy. `null` for a folder. */
  readonly s3: S3Settings | null
  /** Before the bucket; `null` for a folder, or without proxies. */
  readonly objectsProxy: TcpFaultProxy | null
  stop(): Promise<void>
}

const PREFIX = '{farebox-campaign}'

/** Starts what `on` names, on loopback. With `proxied` a fault proxy stands before the bucket. */
export async function startCampaignServices(
  on: readonly OuterServiceKind[],
  proxied = false,
): Promise<CampaignServices> {
  const stops: (() => Promise<void>)[] = []
  const stop = async () => {
    for (const one of stops.toReversed()) await one()
  }
  try {
    const redis = on.includes('redis') ? await startTestRedis(['appendonly yes', 'appendfsync everysec']) : null
    if (redis) stops.push(() => redis.stop())
    const s3 = on.includes('s3') ? await startTestS3() : null
    if (s3) stops.push(() => s3.stop())
    const objectsProxy = s3 && proxied ? await startTcpFaultProxy(placeOf(s3.url)) : null
    if (objectsProxy) stops.push(() => objectsProxy.stop())
    const seen = objectsProxy ? { S3_ENDPOINT: `http://127.0.0.1:${objectsProxy.port}` } : {}
    return {
      settings: {
        ...(redis ? { QUEUE_URL: redis.url, QUEUE_PREFIX: PREFIX } : {}),
        ...(s3 ? asEnvironment(s3.settings(seen)) : {}),
      },
      redis,
      s3: s3?.settings() ?? null,
      objectsProxy,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function placeOf(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: Number(port) }
}

function asEnvironment(settings: S3Settings): OuterServices {
  return Object.fromEntries(
    Object.entries(settings).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
}
