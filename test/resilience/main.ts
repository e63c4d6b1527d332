/** Runs one campaign: `npm run campaign -- kill-matrix --trials 50`. Each is a file of this folder that exports `run`, and `HELP` when it has options. */
const campaigns: Readonly<Record<string, string>> = {
  'kill-matrix': 'kill, stop or mislead a process at every point of a paid call',
  nemesis: 'random faults everywhere at once, from a printed seed',
  mutations: 'take one defence away at a time; the checker must report it',
  duplicates: 'simultaneous duplicates over two APIs',
  'queue-wipe': 'lose the queue with jobs in it',
  'rpc-faults': 'a chain that is down, hangs, is slow or answers errors, at every stage',
  'rpc-lies': 'a chain that lies about one call',
  'payer-attacks': 'payers who move funds, revoke, burn or spend the nonce elsewhere, at every stage',
  'payer-overdraft': 'one small wallet and many calls at once',
}

const HELP = `Usage: npm run campaign -- <campaign> [--help]

${Object.entries(campaigns)
  .map(([name, what]) => `  ${name.padEnd(16)} ${what}`)
  .join('\n')}`

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name !== undefined && name in campaigns) {
    const campaign = (await import(new URL(`./${name}.ts`, import.meta.url).href)) as {
      readonly HELP?: string
      readonly run: (given: readonly string[]) => Promise<number>
    }
    if (!args.includes('--help')) return await campaign.run(args)
    console.log(campaign.HELP ?? `Usage: npm run campaign -- ${name}\n\n  ${campaigns[name]}; no options`)
    return 0
  }
  console.log(HELP)
  return name === '--help' ? 0 : 2
}

// Node 24.21 was seen to spin for ever at its natural end, in the clean-up of handles, after hundreds of cut connections.
process.exit(await main(process.argv.slice(2)))
