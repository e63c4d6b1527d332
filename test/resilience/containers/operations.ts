import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { keccak256 } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createChainReader } from '../../support/chain/devnet.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { startFareboxCommand } from '../../support/processes/farebox-command.ts'
import { writeClip, writeClips } from '../client/clips.ts'
import { readOutputs } from '../client/outputs.ts'
import { untilReached } from '../stack/until-reached.ts'
import type { Composition } from './composition.ts'
import { PROJECT } from './engine.ts'
import { IMAGE } from './images.ts'
import { PUBLIC_BASE_URL } from './settings.ts'

const FUNDS_ATOMIC = 1_000_000_000n
const CLIPS = 6
const CLIP_MS = 20_000
const LONG_RECORDING_MS = 600_000

/** Starts Prometheus and Alertmanager. */
export async function watch({ engine }: Composition): Promise<void> {
  await engine.compose(
    '--profile',
    'observability',
    'up',
    '--detach',
    '--no-build',
    '--no-deps',
    'alertmanager',
    'prometheus',
  )
  for (const service of ['alertmanager', 'prometheus']) await engine.untilHealthy(service)
}

/** Passes what arrives at the proxy's public address inside a container on to the proxy. */
const RELAY = `import { connect, createServer } from 'node:net'
createServer((client) => client.on('error', () => 0).pipe(connect(443, 'proxy').on('error', () => 0)).pipe(client))
  .listen(443, '127.0.0.1').unref()`

/** Runs the preflight in a container with the settings of API, worker and settler, and five paid calls; returns its lines. */
export async function preflight({ engine, outer, directory, authority }: Composition): Promise<string> {
  const payer = await createPayer(outer.localRpcUrl, { usdcAtomic: FUNDS_ATOMIC, approved: true })
  const settings: Record<string, string> = {}
  for (const service of ['api', 'worker', 'settler'])
    Object.assign(settings, (await engine.containers(service))[0]?.environment)
  const { HOSTNAME: _, WORKER_QUEUES: __, ...others } = settings
  const environment = {
    ...others,
    PREFLIGHT_PAYER_PRIVATE_KEY: payer.privateKey,
    NODE_EXTRA_CA_CERTS: '/authority.crt',
  }
  const preload = `data:text/javascript,${encodeURIComponent(RELAY)}`
  const networks = ['data', 'objects', 'outside', 'metrics', 'entrance'].map((name) => `${PROJECT}_${name}`)
  return await engine.podman(
    'run',
    '--rm',
    '--network',
    networks.join(','),
    ...Object.entries(environment).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
    '--volume',
    `${join(directory, 'deployments.json')}:/etc/farebox/deployments.json:ro`,
    // The port is below 1024, and the image's user is not root.
    '--sysctl',
    'net.ipv4.ip_unprivileged_port_start=443',
    '--volume',
    `${authority}:/authority.crt:ro`,
    IMAGE,
    '--import',
    preload,
    'infra/commands/preflight/main.ts',
    '--paid-calls',
    '--alert-url',
    'http://alertmanager:9093',
    ...(await expectedCode(outer.localRpcUrl)),
  )
}

/** The local chain has other code of these contracts than Base, as the sandbox's tests say. */
async function expectedCode(rpcUrl: string): Promise<readonly string[]> {
  const { permit2, uptoProxy } = DEVNET_ADDRESSES
  const hashes = [permit2, uptoProxy].map(async (address) => {
    const code = await callRpc<`0x${string}`>(rpcUrl, 'eth_getCode', [address, 'latest'])
    return ['--expect-code', `${address}=${keccak256(code)}`]
  })
  return (await Promise.all(hashes)).flat()
}

/** Transcribes a folder with a recording of ten minutes; returns what was made. */
export async function transcribe(composition: Composition): Promise<string> {
  const { outer, directory, authority, settings } = composition
  const payer = await createPayer(outer.localRpcUrl, { usdcAtomic: FUNDS_ATOMIC, approved: true })
  const [folder, output] = [join(directory, 'recordings'), join(directory, 'transcripts')]
  await mkdir(output)
  const long = { script: 'This is the recording of ten minutes.', durationMs: LONG_RECORDING_MS }
  const clips = [
    ...(await writeClips(folder, { count: CLIPS, seed: 48, durationMs: CLIP_MS })),
    await writeClip(join(folder, 'ten-minutes.mp3'), long),
  ]
  const args = ['transcribe', folder, '--out', output, '--format', 'txt', '--yes', '--json']
  const command = startFareboxCommand(args, {
    baseUrl: PUBLIC_BASE_URL,
    privateKey: payer.privateKey,
    home: join(directory, 'home'),
    rpcUrl: outer.localRpcUrl,
    authority,
  })
  const { code, elapsedMs } = await command.ended
  if (code !== 0) throw new Error(`farebox transcribe ended with ${code}: ${command.errors()}`)
  const { transcripts } = await readOutputs(output)
  const wrong = clips.filter(({ name, script }) => transcripts.get(name)?.trim().replaceAll(/\s+/g, ' ') !== script)
  if (wrong.length > 0) throw new Error(`wrong transcripts: ${wrong.map(({ name }) => name).join(', ')}`)
  const transfers = (await createChainReader(outer.localRpcUrl).transfersTo(settings.payTo)).filter(
    ({ from }) => from.toLowerCase() === payer.address,
  )
  if (transfers.length !== clips.length) throw new Error(`${transfers.length} payments for ${clips.length} recordings`)
  return `  ${clips.length} transcripts, ${transfers.length} payments, ${(elapsedMs / 1000).toFixed(1)} s`
}

/** Returns what each container occupies, such as `api 120 MB`. */
export async function measureMemory({ engine }: Composition): Promise<string> {
  const containers = await engine.containers()
  const lines = (await engine.podman('stats', '--no-stream', '--no-trunc', '--format', '{{.ID}} {{.MemUsage}}')).split(
    '\n',
  )
  const used = new Map(lines.map((line) => [line.split(' ')[0] ?? '', line.split(' ').slice(1).join('').split('/')[0]]))
  return containers
    .filter(({ id, isRunning }) => isRunning && used.has(id))
    .map(({ id, service }) => `${service} ${used.get(id)}`)
    .sort()
    .join(', ')
}

/** Waits for the alerts of the preflight and of the watchdog; returns all that arrived. */
export async function expectAlerts({ outer }: Composition): Promise<string> {
  await untilReached('the alerts have arrived', () =>
    ['FareboxPreflight', 'FareboxWatchdog'].every((name) => outer.alerts.has(name)),
  )
  return `  arrived: ${[...outer.alerts].sort().join(', ')}`
}
