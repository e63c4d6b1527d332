import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { startDevnet } from '../../../infra/sandbox/chain/devnet.ts'
import { startService } from '../../../infra/sandbox/processes/service-processes.ts'
import { type Engine, PROJECT } from './engine.ts'

/** Of this scenario, beside those of docker-compose.yml, which come and go. */
const NETWORK = `${PROJECT}_machine`

/** What is outside of the machine of a deployment: the chain, the vendors, and who is called when something is wrong. */
export interface OuterServices {
  readonly network: string
  /** The chain and the vendors as the containers see them. */
  readonly rpcUrl: string
  readonly upstreamUrl: string
  readonly webhookUrl: string
  /** The chain as this process sees it. */
  readonly localRpcUrl: string
  readonly upstreamCallLog: string
  readonly upstreamKey: string
  /** The names of all alerts that arrived. */
  readonly alerts: ReadonlySet<string>
  stop(): Promise<void>
}

const notification = z.object({ alerts: z.array(z.object({ labels: z.object({ alertname: z.string() }) })) })

/** Starts them as processes of this machine, which containers reach by its address as a gateway. */
export async function startOuterServices(engine: Engine, directory: string): Promise<OuterServices> {
  await engine.podman('network', 'create', NETWORK)
  const gateway = (
    await engine.podman('network', 'inspect', '--format', '{{(index .Subnets 0).Gateway}}', NETWORK)
  ).trim()
  // The gateway has its address as long as the network has a container.
  const holder = ['--name', `${PROJECT}_holder`, '--network', NETWORK]
  await engine.podman('run', '--detach', ...holder, 'localhost/debian:bookworm-slim', 'sleep', 'infinity')
  const upstreamKey = 'of-the-simulated-vendors'
  const upstreamCallLog = join(directory, 'upstream-calls.jsonl')
  const chain = await startDevnet({ blockTimeSeconds: 1 })
  const upstream = await startService({
    name: 'upstream',
    entry: 'infra/sandbox/upstream/main.ts',
    logsDirectory: join(directory, 'logs'),
    isReady: (line) => line.startsWith('{"listening":'),
    environment: { UPSTREAM_DELAY_MS: '300', UPSTREAM_API_KEY: upstreamKey, UPSTREAM_CALL_LOG: upstreamCallLog },
  })
  const { listening } = JSON.parse(upstream.readyLine) as { listening: number }
  const alerts = new Set<string>()
  const receiver = createHttpServer((request, response) => void receive(request, response, alerts))
  const servers: Server[] = [receiver, relayTo(Number(new URL(chain.rpcUrl).port)), relayTo(listening)]
  const [webhookUrl = '', rpcUrl = '', upstreamUrl = ''] = await Promise.all(
    servers.map((server) => listenOn(gateway, server)),
  )
  return {
    network: NETWORK,
    rpcUrl,
    upstreamUrl,
    webhookUrl,
    localRpcUrl: chain.rpcUrl,
    upstreamCallLog,
    upstreamKey,
    alerts,
    stop: async () => {
      for (const server of servers) server.close()
      receiver.closeAllConnections()
      await upstream.stop()
      await chain.stop()
    },
  }
}

async function receive(request: IncomingMessage, response: ServerResponse, alerts: Set<string>): Promise<void> {
  for (const { labels } of notification.parse(JSON.parse(await text(request))).alerts) alerts.add(labels.alertname)
  response.end()
}

function relayTo(port: number): Server {
  return createServer((client) => {
    const target = connect({ host: '127.0.0.1', port })
    client.pipe(target).pipe(client)
    for (const [one, other] of [
      [client, target],
      [target, client],
    ] as const) {
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
    }
  })
}

async function listenOn(gateway: string, server: Server): Promise<string> {
  server.listen(0, gateway)
  await once(server, 'listening')
  return `http://${gateway}:${(server.address() as AddressInfo).port}`
}
