import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { runProgram } from '../../support/processes/run-program.ts'
import { createPayingCaller, type PayingCaller } from '../calls/paying-caller.ts'
import { type Engine, startEngine } from './engine.ts'
import { IMAGE } from './images.ts'
import { type OuterServices, startOuterServices } from './outer-services.ts'
import { type OperatorSettings, PUBLIC_BASE_URL, writeSettings } from './settings.ts'

/** A caller repeats for as long as a worker that was killed holds its job, and longer. */
const CALLER_PATIENCE_MS = 900_000
const PAYER_FUNDS_ATOMIC = 1_000_000_000n
const PAYERS = 8
/** The services of docker-compose.yml that the scenario starts, with their containers. */
export const SERVICES = {
  postgres: 1,
  redis: 1,
  objects: 1,
  api: 2,
  worker: 2,
  settler: 1,
  console: 1,
  proxy: 1,
} as const
export const COUNTS = ['api', 'worker'].flatMap((name) => ['--scale', `${name}=2`])

/** The composed system of docker-compose.yml in containers, what it runs on, and callers. */
export interface Composition {
  readonly directory: string
  readonly engine: Engine
  readonly outer: OuterServices
  readonly settings: OperatorSettings
  readonly caller: PayingCaller
  readonly payers: { readonly approved: readonly Payer[]; readonly sponsored: readonly Payer[] }
  /** A file with the certificate of the proxy's own authority. */
  readonly authority: string
  /** Returns the ledger's URL as its owner, from this machine; the container has another address after each start. */
  databaseUrl(): Promise<string>
}

/** Starts it; `onStop` takes what ends what was started so far, for a scenario that is interrupted. */
export async function startComposition(
  report: (line: string) => void,
  onStop: (stop: () => Promise<void>) => void,
): Promise<Composition> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-containers-'))
  const engine = await startEngine(directory)
  const stops = [() => engine.stop(), () => rm(directory, { recursive: true, force: true })]
  onStop(async () => {
    for (const one of stops) await one().catch((error: unknown) => report(`while stopping: ${String(error)}`))
  })
  const outer = await startOuterServices(engine, directory)
  stops.unshift(() => outer.stop())
  const settings = await writeSettings(engine, outer, directory, IMAGE)
  report(`contract ${settings.contract}`)
  await engine.compose('up', '--detach', '--no-build', ...COUNTS, ...Object.keys(SERVICES))
  await untilServing(engine)
  const authority = join(directory, 'root.crt')
  await copyAuthority(engine, authority)
  setDefaultCACertificates([...getCACertificates(), await readFile(authority, 'utf8')])
  const add = (approved: boolean) => createPayer(outer.localRpcUrl, { usdcAtomic: PAYER_FUNDS_ATOMIC, approved })
  const [approved, sponsored]: [Payer[], Payer[]] = [[], []]
  for (let index = 0; index < PAYERS; index += 1)
    (index % 2 === 0 ? approved : sponsored).push(await add(index % 2 === 0))
  const caller = createPayingCaller({
    baseUrls: [PUBLIC_BASE_URL],
    rpcUrl: outer.localRpcUrl,
    network: 'eip155:8453',
    patienceMs: CALLER_PATIENCE_MS,
    random: Math.random,
  })
  const databaseUrl = async () => {
    const [address = ''] = (await engine.containers('postgres'))[0]?.addresses ?? []
    return `postgres://farebox:${settings.env['POSTGRES_PASSWORD']}@${address}:5432/farebox`
  }
  return { directory, engine, outer, settings, caller, payers: { approved, sponsored }, authority, databaseUrl }
}

/** Waits until every container runs and is healthy; returns the seconds. */
export async function untilServing(engine: Engine): Promise<number> {
  const seconds: number[] = []
  for (const [service, count] of Object.entries(SERVICES))
    if (service !== 'proxy') seconds.push(await engine.untilHealthy(service, count))
  await untilAnswering(engine)
  return seconds.reduce((sum, each) => sum + each, 0)
}

const PROXY_WITHIN_MS = 120_000

/** The proxy has no health check: it serves once it answers for an API. */
async function untilAnswering(engine: Engine): Promise<void> {
  const [proxy] = await engine.containers('proxy')
  for (const giveUpAt = Date.now() + PROXY_WITHIN_MS; Date.now() < giveUpAt; await delay(500)) {
    const check = [
      '--silent',
      '--insecure',
      '--output',
      '/dev/null',
      '--write-out',
      '%{http_code}',
      `${PUBLIC_BASE_URL}/readyz`,
    ]
    if ((await runProgram('curl', check).catch(() => '')).toString() === '200') return
  }
  throw new Error(`the proxy ${proxy?.id} does not answer`)
}

async function copyAuthority(engine: Engine, file: string): Promise<void> {
  const [proxy] = await engine.containers('proxy')
  await engine.podman('cp', `${proxy?.id}:/data/caddy/pki/authorities/local/root.crt`, file)
  // For the image's user.
  await chmod(file, 0o644)
}
