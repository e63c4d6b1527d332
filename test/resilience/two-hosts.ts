import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type ObservedPostgres, startObservedPostgres } from '../bench/measuring/observed-postgres.ts'
import type { CallRecord } from './checker/ledgers.ts'
import { type Comparison, compareLedgers } from './stack/stack-report.ts'
import { type CampaignStack, startCampaignStack } from './stack/stack.ts'
import { createHostServices, type HostName, type HostServices, SERVICES_OF } from './two-hosts/host-services.ts'
import { type LoadUsage, measureLoad } from './two-hosts/measure-load.ts'
import { createHosts, findObstacle, type NetworkHost } from './two-hosts/network-hosts.ts'
import { type CostlyEvent, type EventCost, measureEvent } from './two-hosts/partition.ts'
import { startSteadyLoad } from './upgrade/steady-load.ts'

export const HELP = `Usage: npm run campaign -- two-hosts [--calls 200] [--callers 16] [--partition-seconds 30]

Runs API, worker and settler on each of two hosts, which are network namespaces of this machine, over one PostgreSQL, one
Redis and one node. Measures what a paid chat costs with one host and with both; then, under load of every kind of call, cuts
each host off and puts delay, a stall and resets between it and what both share. No call may fail, none may be paid twice.
Needs root. Two hosts share this machine's cores: their rate shows interference, and not scaling.

  --calls               paid chats of each measurement
  --callers             concurrent callers
  --partition-seconds   how long each host is cut off; jobs are taken over after LEASE_SECONDS (15)`

export interface TwoHostsOptions {
  readonly calls: number
  readonly callers: number
  readonly partitionMs: number
  readonly onProgress?: (line: string) => void
}

export interface TwoHostsReport extends Pick<Comparison<never>, 'stuckJobs' | 'jobs' | 'transfers' | 'upstreamCalls'> {
  readonly usage: Readonly<Record<'one host' | 'two hosts' | 'one host again', LoadUsage>>
  readonly events: readonly EventCost[]
  readonly calls: number
  /** Calls whose caller did not get its result. */
  readonly failed: readonly string[]
  readonly signedAgain: number
  readonly violations: readonly string[]
}

/** How long a client waits for an answer before it repeats the request at the other host. */
const ANSWER_WITHIN_MS = 15_000
const UPSTREAM_MS = 200
const [DELAY_MS, DELAYED_MS, STALL_MS, OUTAGE_MS] = [40, 15_000, 5000, 3000]
const WARM_UP_CALLS = 60

/** Runs the campaign over two hosts, which must be possible on this machine. */
export async function runTwoHosts(options: TwoHostsOptions): Promise<TwoHostsReport> {
  const network = await createHosts(Object.keys(SERVICES_OF))
  const services = createHostServices(network.hosts)
  let postgres: ObservedPostgres | null = null
  try {
    postgres = await startObservedPostgres()
    const lost = new Set<CallRecord>()
    const stack = await startCampaignStack({
      apis: 2,
      workers: 4,
      settlementKeys: 2,
      on: ['redis'],
      databaseUrl: postgres.url,
      rootOf: () => undefined,
      blockTimeSeconds: 1,
      upstreamDelayMs: UPSTREAM_MS,
      workerEnvironment: { LEASE_SECONDS: '15' },
      answerWithinMs: ANSWER_WITHIN_MS,
      onLost: (record) => lost.add(record),
      ...services,
    })
    try {
      return await runOn({ stack, postgres, services, hosts: network.hosts, lost }, options)
    } finally {
      await stack.stop()
    }
  } finally {
    await services.stop()
    await postgres?.stop()
    await network.remove()
  }
}

interface Running {
  readonly stack: CampaignStack
  readonly postgres: ObservedPostgres
  readonly services: HostServices
  readonly hosts: readonly NetworkHost[]
  /** The calls whose request once had no answer. */
  readonly lost: ReadonlySet<CallRecord>
}

async function runOn(running: Running, options: TwoHostsOptions): Promise<TwoHostsReport> {
  const { stack, postgres, lost } = running
  const { calls, callers, onProgress } = options
  const load = (services: LoadServices, count = calls) =>
    measureLoad(stack, postgres, { services, calls: count, atOnce: callers })
  const say = <Said>(said: Said): Said => {
    onProgress?.(JSON.stringify(said))
    return said
  }
  await load(BOTH, WARM_UP_CALLS)
  await stopHost(stack, 'b')
  const one = say(await load(SERVICES_OF.a))
  await startHost(stack, 'b')
  await load(BOTH, WARM_UP_CALLS)
  const two = say(await load(BOTH))
  await stopHost(stack, 'b')
  const again = say(await load(SERVICES_OF.a))
  await startHost(stack, 'b')
  const steady = startSteadyLoad(stack, callers)
  await steady.untilFinished(callers * 2)
  const events: EventCost[] = []
  for (const event of eventsOf(running, options)) events.push(say(await measureEvent(stack, steady, lost, event)))
  await steady.stop()
  const { violations, ...compared } = await compareLedgers(stack, stack.caller.records, (violation) => violation)
  const { records } = stack.caller
  return {
    ...compared,
    usage: { 'one host': one, 'two hosts': two, 'one host again': again },
    events,
    calls: records.length,
    failed: records.filter(({ outcome }) => outcome !== 'released').map(describeCall),
    signedAgain: records.filter(({ nonces }) => nonces.length > 1).length,
    violations: violations.map(({ invariant, jobId, detail }) => `${invariant} ${jobId ?? ''} ${detail}`),
  }
}

type LoadServices = Parameters<typeof measureLoad>[2]['services']
const BOTH = [...SERVICES_OF.a, ...SERVICES_OF.b]

async function stopHost(stack: CampaignStack, host: HostName): Promise<void> {
  for (const name of SERVICES_OF[host]) process.kill(stack.pidOf(name), 'SIGTERM')
  // Their last reports are gone by then, and their jobs handed back.
  for (const name of SERVICES_OF[host]) while (isAlive(stack.pidOf(name))) await delay(100)
}

async function startHost(stack: CampaignStack, host: HostName): Promise<void> {
  await Promise.all(SERVICES_OF[host].map((name) => stack.restart(name)))
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Returns what happens to each host, one after the other. */
function eventsOf({ services, hosts }: Running, { partitionMs }: TwoHostsOptions): readonly CostlyEvent[] {
  const urls = services.clientUrls()
  return hosts.flatMap((host, index): readonly CostlyEvent[] => {
    const apiUrl = urls[index] ?? ''
    const between = (name: string, forMs: number, fault: Parameters<HostServices['setFault']>[1]): CostlyEvent => ({
      name: `${name} for ${forMs / 1000} s at host ${host.name}`,
      forMs,
      begin: () => services.setFault(host.name as HostName, fault),
      end: () => services.setFault(host.name as HostName, null),
      apiUrl,
    })
    return [
      {
        name: `partition of host ${host.name} for ${partitionMs / 1000} s`,
        forMs: partitionMs,
        begin: () => host.setLink('down'),
        end: () => host.setLink('up'),
        apiUrl,
      },
      between(`${DELAY_MS} ms of delay`, DELAYED_MS, { kind: 'latency', delayMs: DELAY_MS }),
      between('stall', STALL_MS, { kind: 'blackhole' }),
      between('resets and refusals', OUTAGE_MS, { kind: 'refuse' }),
    ]
  })
}

function describeCall({ callId, outcome, answers, problems }: CallRecord): string {
  const given = answers.map(({ status, code, bodyText }) => `${status} ${code ?? ''} ${status < 400 ? '' : bodyText}`)
  return `${callId} ${outcome}: ${[...given.slice(-3), ...problems].join(' | ')}`
}

/** Runs the command. Returns exit code 1 for a failed call or a violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      calls: { type: 'string', default: '200' },
      callers: { type: 'string', default: '16' },
      'partition-seconds': { type: 'string', default: '30' },
    },
  })
  const obstacle = await findObstacle()
  if (obstacle !== null) {
    console.error(`The campaign two-hosts was left out: ${obstacle}.`)
    return process.env['CI'] === 'true' ? 1 : 0
  }
  const report = await runTwoHosts({
    calls: Number(values.calls),
    callers: Number(values.callers),
    partitionMs: Number(values['partition-seconds']) * 1000,
    onProgress: (line) => console.log(line),
  })
  console.log(JSON.stringify(report, null, 2))
  const { failed, violations, stuckJobs } = report
  return failed.length + violations.length + stuckJobs.length === 0 ? 0 : 1
}
