import { parseArgs } from 'node:util'
import { ATTACKS } from './purse/attacks.ts'
import { type NewcomersReport, runNewcomers } from './purse/run-newcomers.ts'
import { type PurseReport, runPurse } from './purse/run-purse.ts'

export const HELP = `Usage: npm run campaign -- purse [--seconds 300] [--attacks NAME[,NAME]]
       npm run campaign -- purse --newcomers [--seconds 60]

Lets an attacker with 20 USDC, 100 wallets and 1,000 addresses run every attack on the operator's money and on
other callers next to 20 honest payers. Reports what it cost whom.

With --newcomers: thieves with 12 coins of 0.77 USDC start calls of the highest price from ever new wallets and move the
money on while the vendor works, and beggars with 2 coins of 0.10 USDC ask for permits, next to people whose first calls
are an hour's recording or twenty clips in parallel. Fails above 0.77 USDC a wallet or 20 USDC together, for a refusal of
one of those people, and for a permit without a charge.

Attacks:
${Object.keys(ATTACKS)
  .map((name) => `  ${name}`)
  .join('\n')}`

const onProgress = (line: string) => console.log(line)

/** Runs the command. Returns exit code 1 for any violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: 'string' },
      attacks: { type: 'string', default: '' },
      newcomers: { type: 'boolean', default: false },
    },
  })
  if (values.newcomers) {
    const newcomers = await runNewcomers({ seconds: Number(values.seconds ?? 60), onProgress })
    printNewcomers(newcomers)
    return newcomers.violations.length === 0 ? 0 : 1
  }
  const chosen = values.attacks === '' ? Object.keys(ATTACKS) : values.attacks.split(',')
  const report = await runPurse({
    seconds: Number(values.seconds ?? 300),
    attacks: chosen,
    onProgress,
  })
  print(report)
  return report.violations.length === 0 ? 0 : 1
}

function printNewcomers({ thefts, permits, violations, ...totals }: NewcomersReport): void {
  console.table({ ...prefixed('theft', thefts), ...prefixed('permit', permits), ...totals })
  console.log(`${violations.length} violations`)
  for (const violation of violations) console.log(violation)
}

function prefixed(kind: string, outcomes: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(outcomes).map(([outcome, times]) => [`${kind}: ${outcome}`, times]))
}

function print({ before, during, attacks, attackerCost, operatorCost, bound, violations }: PurseReport): void {
  console.table({
    'without attack': { ...before, refusals: before.refusals.length },
    'during the attack': { ...during, refusals: during.refusals.length },
  })
  console.table(
    Object.entries(attacks).flatMap(([attack, outcomes]) =>
      Object.entries(outcomes).map(([outcome, times]) => ({ attack, outcome, times })),
    ),
  )
  const { uncountedJobs, inventedJobs, ...cost } = operatorCost
  console.table({
    ...cost,
    attackerCost,
    bound,
    uncountedJobs: uncountedJobs.length,
    inventedJobs: inventedJobs.length,
  })
  console.log(`${violations.length} violations`)
  for (const violation of violations.slice(0, 20)) console.log(violation)
}
