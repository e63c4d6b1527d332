import type { Connections, ServiceName } from '../../../infra/sandbox/sandbox-options.ts'
import { startTcpFaultProxy, type TcpFault, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { type NetworkHost, OUTSIDE } from './network-hosts.ts'

/** The processes of each host: what a machine of a deployment runs. */
export const SERVICES_OF = {
  a: ['api', 'worker', 'worker-3'],
  b: ['api-2', 'worker-2', 'worker-4'],
} as const satisfies Readonly<Record<string, readonly ServiceName[]>>
export type HostName = keyof typeof SERVICES_OF

/** Free, since each host has ports of its own. */
const API_PORT = 8402
const SETTLERS: ReadonlySet<ServiceName> = new Set(['worker-3', 'worker-4'])

/** Returns what a process is called in tables: `worker-3` is a settler. */
export function roleOf(service: ServiceName): 'API' | 'worker' | 'settler' {
  if (service.startsWith('api')) return 'API'
  return SETTLERS.has(service) ? 'settler' : 'worker'
}

/** What a host reaches over its cable. */
type Shared = 'database' | 'queue' | 'node'

/** The proxies at this machine's end of each host's cable, and the settings of its processes. */
export interface HostServices {
  /** Opens the proxies; an option of the sandbox. */
  readonly connections: (real: Connections) => Promise<Connections>
  readonly environmentOf: (service: ServiceName) => Record<string, string>
  readonly launcherOf: (service: ServiceName) => readonly string[]
  /** The APIs as clients on this machine reach them, in the order of the hosts. */
  readonly clientUrls: () => readonly string[]
  /** Makes what a host shares with the other one fail, or be well again. */
  setFault(host: HostName, fault: TcpFault | null): Promise<void>
  stop(): Promise<void>
}

export function createHostServices(hosts: readonly NetworkHost[]): HostServices {
  const proxies: TcpFaultProxy[] = []
  const apiUrls = hosts.map(({ address }) => `http://${address}:${API_PORT}`)
  const ofHost = new Map<
    string,
    { readonly proxies: readonly TcpFaultProxy[]; readonly urls: Record<Shared, string> }
  >()
  const through = async (target: string, address: string) => {
    const url = new URL(target)
    const proxy = await startTcpFaultProxy({ host: url.hostname, port: Number(url.port) }, address)
    proxies.push(proxy)
    url.hostname = address
    url.port = String(proxy.port)
    return { proxy, url: url.href.replace(/\/$/, '') }
  }
  const hostOf = (service: ServiceName) => {
    const name = Object.entries(SERVICES_OF).find(([, services]) => services.some((each) => each === service))?.[0]
    const host = hosts.find((each) => each.name === name)
    if (!host) throw new Error(`no host runs ${service}`)
    return host
  }
  return {
    connections: async ({ databaseUrl, queueUrl, rpcUrl, upstreamUrl }) => {
      for (const { name, gateway } of hosts) {
        const [database, queue, node] = await Promise.all(
          [databaseUrl, queueUrl, rpcUrl].map((target) => through(target, gateway)),
        )
        if (!database || !queue || !node) throw new Error('a proxy is missing')
        const urls = { database: database.url, queue: queue.url, node: node.url }
        ofHost.set(name, { proxies: [database.proxy, queue.proxy], urls })
      }
      return { databaseUrl, queueUrl, rpcUrl, upstreamUrl: (await through(upstreamUrl, OUTSIDE)).url }
    },
    environmentOf: (service) => {
      const { name, address } = hostOf(service)
      const urls = ofHost.get(name)?.urls
      if (!urls) throw new Error(`the proxies of ${name} are not open`)
      const role = roleOf(service)
      return {
        DATABASE_URL: urls.database,
        QUEUE_URL: urls.queue,
        RPC_URL: urls.node,
        // Links to media name it, whichever API gave them.
        PUBLIC_BASE_URL: apiUrls[0] ?? '',
        ...(role === 'API' ? { HOST: address, PORT: String(API_PORT) } : {}),
        ...(role === 'worker' ? { WORKER_QUEUES: 'text,images,speech,transcriptions' } : {}),
        ...(role === 'settler' ? { WORKER_QUEUES: 'settlement' } : {}),
      }
    },
    launcherOf: (service) => hostOf(service).launcher,
    clientUrls: () => apiUrls,
    setFault: async (host, fault) =>
      void (await Promise.all((ofHost.get(host)?.proxies ?? []).map((proxy) => proxy.setFault(fault)))),
    stop: async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))),
  }
}
