import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { type ClientCampaignReport, runClientCampaign, VARIANTS, type Variant } from './client/run-client.ts'

export const HELP = `Usage: npm run campaign -- client [--clips 1000] [--kills 20] [--variant NAME[,NAME]] [--seed N]
                                   [--concurrency 16] [--vendor-ms 300] [--random-keys]

Transcribes a folder of clips of 22 s with the command, as a process that is killed at drawn moments and run again until it
ends by itself. Each clip must have its transcript, one receipt and one charge on chain. Run again with the printed seed
for the same clips and moments.

  --random-keys  run a client whose idempotency keys are random; the checker must report what it pays twice

Variants (all by default):
${Object.entries(VARIANTS)
  .map(([name, what]) => `  ${name.padEnd(10)} ${what}`)
  .join('\n')}`

/** Runs the command. Returns exit code 1 for any violation, with `--random-keys` if there is none. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      clips: { type: 'string', default: '1000' },
      kills: { type: 'string', default: '20' },
      variant: { type: 'string', default: Object.keys(VARIANTS).join(',') },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
      concurrency: { type: 'string', default: '16' },
      'vendor-ms': { type: 'string', default: '300' },
      'random-keys': { type: 'boolean', default: false },
    },
  })
  const withRandomKeys = values['random-keys']
  let isAsExpected = true
  for (const variant of values.variant.split(',')) {
    if (!(variant in VARIANTS)) throw new Error(`there is no variant ${variant}`)
    const startedAt = performance.now()
    const report = await runClientCampaign({
      seed: Number(values.seed),
      clips: Number(values.clips),
      kills: Number(values.kills),
      concurrency: Number(values.concurrency),
      upstreamDelayMs: Number(values['vendor-ms']),
      variant: variant as Variant,
      withRandomKeys,
      onProgress: (line) => console.log(line),
    })
    print(report, (performance.now() - startedAt) / 1000)
    if (report.violations.length > 0 !== withRandomKeys) isAsExpected = false
  }
  return isAsExpected ? 0 : 1
}

function print(report: ClientCampaignReport, seconds: number): void {
  const { runs, serviceKills, transcripts, transfers, chargedAtomic, priceAtomic, violations } = report
  const killed = runs.filter(({ kill }) => kill !== null).length
  console.log(
    `  ${transcripts} transcripts; ${transfers} transfers of ${priceAtomic}, together ${chargedAtomic} atomic USDC; ${killed} kills of the command, ${serviceKills} of API and worker; ${seconds.toFixed(0)} s, load ${loadavg()[0]?.toFixed(1)}`,
  )
  console.log(`  ${violations.length} violations`)
  for (const violation of violations.slice(0, 20)) console.log(`  ${violation}`)
}
