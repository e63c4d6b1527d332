import { z } from 'zod'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import type { OuterServices } from '../../../infra/sandbox/outer-services.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { startTestRedis, type TestRedis } from '../../support/processes/redis-server.ts'
import { startTestS3 } from '../../support/processes/s3-server.ts'

/** Services (Redis, Ceph's S3 gateway) that replace the queue in PostgreSQL and the folder for objects in a campaign. */
const OUTER_SERVICE_KINDS = ['redis', 's3'] as const
export type OuterServiceKind = (typeof OUTER_SERVICE_KINDS)[number]

const onSchema = z
  .string()
  .transform((list) => list.split(',').filter((name) => name !== ''))
  .pipe(z.array(z.enum(OUTER_SERVICE_KINDS)))

/** Parses the option `--on redis,s3` of a campaign; an empty text means the sandbox's own queue and folder. */
export function parseOn(text: string): readonly OuterServiceKind[] {
  return onSchema.parse(text)
}

export interface CampaignServices {
  /** Options of the sandbox. */
  readonly settings: OuterServices
  /** A Redis whose messages survive a restart (AOF). `null` for the queue in PostgreSQL. */
  readonly redis: TestRedis | null
  /** The bucket itself, without the proxy. `null` for a folder. */
  readonly s3: S3Settings | null
  /** The fault proxy in front of the bucket. `null` for a folder, or without proxies. */
  readonly objectsProxy: TcpFaultProxy | null
  stop(): Promise<void>
}

const PREFIX = '{farebox-campaign}'

/** Starts the services that `on` names on loopback; with `proxied`, the bucket is behind a fault proxy. */
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
        ...s3?.environment(seen),
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
