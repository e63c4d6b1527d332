import { parseArgs } from 'node:util'
import { ATTACKS } from './purse/attacks.ts'
import { type PurseReport, runPurse } from './purse/run-purse.ts'

export const HELP = `Usage: npm run campaign -- purse [--seconds 300] [--attacks NAME[,NAME]]

Lets an attacker with 20 USDC, 100 wallets and 1,000 addresses run every attack on the operator's money and on
other callers next to 20 honest payers. Reports what it cost whom.

Attacks:
${Object.keys(ATTACKS)
  .map((name) => `  ${name}`)
  .join('\n')}`

/** Runs the command. Returns exit code 1 for any violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { seconds: { type: 'string', default: '300' }, attacks: { type: 'string', default: '' } },
  })
  const chosen = values.attacks === '' ? Object.keys(ATTACKS) : values.attacks.split(',')
  const report = await runPurse({
    seconds: Number(values.seconds),
    attacks: chosen,
    onProgress: (line) => console.log(line),
  })
  print(report)
  return report.violations.length === 0 ? 0 : 1
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
